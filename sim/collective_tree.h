#pragma once

#include "sim/collective_steps.h"

namespace simrun {

// One edge of a binary tree over 0 .. n-1.
struct TreeEdge {
  std::size_t child = 0, parent = 0;
};

// Two binary trees over n places, of which every place but one or two is a leaf in one, so that with half of
// the data each no place sends more than all of it up and down (Sanders, Speck and Traeff 2009, "Two-tree
// algorithms for full bandwidth broadcast, reduction and scan"). Edges of both, one after the other.
std::vector<TreeEdge> double_binary_tree(std::size_t places);
// The same, both with the root 0.
std::vector<TreeEdge> rooted_double_binary_tree(std::size_t places);
// Steps from the furthest leaf to the root that NCCL counts: the binary logarithm, rounded down.
double tree_depth(std::size_t places);

// The longest of the tree's steps between nodes.
double step_between(const Topology& topology, const std::vector<Ranks>& nodes, const StepCosts& costs);
// For all-reduces: up and down two trees over the nodes for each of the k ranks, with 1/k of the bytes.
void add_node_trees(const Topology& topology, const std::vector<Ranks>& nodes, FlowPhase& phase);

// Double binary trees between nodes, chains inside them, in small chunks so that all edges are busy at once
// (NCCL's "tree"): one phase. k ranks on each of N nodes; k pairs of trees, each through the NICs of the
// ranks of one number with 1/k of the bytes.
//   all-reduce  up and down: a NIC sends at most 2/k of the bytes, a rank inside its node 2(k-1)/k;
//               2((k-1) steps inside + log2(N) between)
//   broadcast   down only, from the first rank: NICs 1/k; (k-1) steps inside + log2(N) between
// Empty for other collectives and where nodes have different numbers of ranks.
ExchangeFlows tree_flows(const Topology& topology, Opcode opcode, Ranks devices, const StepCosts& costs);

}  // namespace simrun
