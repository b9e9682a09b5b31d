#pragma once

#include "sim/collective_flows.h"

// What the algorithms of collectives share: nodes, edges between ranks, and how long a step takes.
namespace simrun {

using Ranks = std::span<const std::int64_t>;

// Of an algorithm under a protocol.
struct StepCosts {
  double base_s = 0;                // once
  double inside_s = 0;              // a step inside a node; 0: the latency of its link
  double network_s = 0;             // a step between nodes, if that is longer than its route's latency
  double rank_s = 0;                // for every rank
  double reduction_efficiency = 1;  // of links inside a node whose switch reduces
};

// The ranks of each node, in the order of the nodes: those of one NVLink domain are like one. `devices`
// ascend and are not empty.
std::vector<Ranks> by_node(const Topology& topology, Ranks devices);
std::size_t fewest_ranks(const std::vector<Ranks>& nodes);
bool are_equally_many(const std::vector<Ranks>& nodes);

// Of the longest step inside a node, from one rank to the next; 0 where each node has one rank.
double step_inside(const Topology& topology, const std::vector<Ranks>& nodes, const StepCosts& costs);

// The flow from a device to another with that share, if there is one.
void add_flow(const Topology& topology, std::int64_t from, std::int64_t to, double share, FlowPhase& phase);

// A ring over the `rank`-th device of every node.
struct NodeRing {
  std::size_t rank = 0;
  double share = 1;          // of the bytes, on each edge
  bool returns = true;       // has an edge from the last node to the first
  double latency_s = 0;      // all its steps
  double all_but_one_s = 0;  // without the fastest
};
NodeRing add_node_ring(const Topology& topology, const std::vector<Ranks>& nodes, const StepCosts& costs,
                       NodeRing ring, FlowPhase& phase);

// The edges of the rings over the ranks of a node (rings_inside()), which have the share together.
void add_rings(const Topology& topology, Ranks node, double share, bool returns, FlowPhase& phase);

// From a rank to each other one of its node as much, `share` in all. Where the ports of a switch are all that
// limits, the flows of all ranks put the same on them if each sends all to the next.
void add_to_others(const Topology& topology, Ranks node, std::size_t rank, double share, FlowPhase& phase);

// The edges from each rank of a node to the next, where `rings` rings enter the node at its first ranks and
// leave it before they would return there.
void add_inside(const Topology& topology, Ranks node, std::size_t rings, double share, FlowPhase& phase);

}  // namespace simrun
