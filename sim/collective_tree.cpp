#include "sim/collective_tree.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace simrun {

namespace {

// In order: odd places are leaves, and the root 0 has one child.
std::size_t parent_of(std::size_t place, std::size_t places) {
  const std::size_t lowest = place & (~place + 1);
  const std::size_t above = (place ^ lowest) | (lowest << 1);
  return above < places ? above : place ^ lowest;
}

// The tree, and the same with other names for its places.
template <class Renamed>
std::vector<TreeEdge> tree_and(std::size_t places, const Renamed& renamed) {
  std::vector<TreeEdge> edges;
  for (std::size_t place = 1; place < places; ++place) edges.push_back({place, parent_of(place, places)});
  for (std::size_t place = 1; place < places; ++place)
    edges.push_back({renamed(place), renamed(parent_of(place, places))});
  return edges;
}

// Up and down the chains inside a node that lead to each of its ranks in turn: every edge of the ring but the
// one into the head, for k heads with 1/k of the bytes each.
void add_chains(const Topology& topology, Ranks node, bool up, FlowPhase& phase) {
  const auto k = static_cast<double>(node.size());
  for (std::size_t j = 0; j < node.size(); ++j) {
    const std::int64_t from = node[j], to = node[(j + 1) % node.size()];
    add_flow(topology, from, to, (k - 1) / k, phase);
    if (up) add_flow(topology, to, from, (k - 1) / k, phase);
  }
}

ExchangeFlows broadcast_flows(const Topology& topology, const std::vector<Ranks>& nodes,
                              const StepCosts& costs) {
  const auto k = static_cast<double>(nodes[0].size());
  FlowPhase phase;
  for (std::size_t j = 0; j + 1 < nodes[0].size(); ++j)
    add_flow(topology, nodes[0][j], nodes[0][j + 1], 1, phase);
  for (std::size_t node = 1; node < nodes.size(); ++node) add_chains(topology, nodes[node], false, phase);
  for (const TreeEdge& edge : rooted_double_binary_tree(nodes.size()))
    for (std::size_t rank = 0; rank < nodes[0].size(); ++rank)
      add_flow(topology, nodes[edge.parent][rank], nodes[edge.child][rank], 0.5 / k, phase);
  phase.latency_s = costs.base_s + (k - 1) * step_inside(topology, nodes, costs) +
                    tree_depth(nodes.size()) * step_between(topology, nodes, costs);
  return in_turn(std::move(phase));
}

}  // namespace

std::vector<TreeEdge> double_binary_tree(std::size_t places) {
  return tree_and(
      places, [&](std::size_t place) { return places % 2 == 0 ? places - 1 - place : (place + 1) % places; });
}

std::vector<TreeEdge> rooted_double_binary_tree(std::size_t places) {
  return tree_and(places, [&](std::size_t place) {
    if (place == 0) return place;
    return places % 2 == 0 ? place % (places - 1) + 1 : places - place;
  });
}

double tree_depth(std::size_t places) { return static_cast<double>(std::bit_width(places) - 1); }

double step_between(const Topology& topology, const std::vector<Ranks>& nodes, const StepCosts& costs) {
  double longest_s = costs.network_s;
  for (const TreeEdge& edge : double_binary_tree(nodes.size()))
    for (std::size_t rank = 0; rank < nodes[0].size(); ++rank)
      longest_s =
          std::max(longest_s, topology.route(nodes[edge.child][rank], nodes[edge.parent][rank]).latency_s);
  return longest_s;
}

void add_node_trees(const Topology& topology, const std::vector<Ranks>& nodes, FlowPhase& phase) {
  const auto k = static_cast<double>(nodes[0].size());
  for (const TreeEdge& edge : double_binary_tree(nodes.size()))
    for (std::size_t rank = 0; rank < nodes[0].size(); ++rank) {
      const std::int64_t child = nodes[edge.child][rank], parent = nodes[edge.parent][rank];
      add_flow(topology, child, parent, 0.5 / k, phase);
      add_flow(topology, parent, child, 0.5 / k, phase);
    }
}

ExchangeFlows tree_flows(const Topology& topology, Opcode opcode, Ranks devices, const StepCosts& costs) {
  if (devices.size() <= 1 || (opcode != Opcode::all_reduce && opcode != Opcode::broadcast)) return {};
  const std::vector<Ranks> nodes = by_node(topology, devices);
  if (!are_equally_many(nodes)) return {};
  if (opcode == Opcode::broadcast) return broadcast_flows(topology, nodes, costs);
  FlowPhase phase;
  phase.flows.reserve(6 * devices.size());
  for (const Ranks& node : nodes) add_chains(topology, node, true, phase);
  add_node_trees(topology, nodes, phase);
  phase.latency_s =
      costs.base_s + 2 * (static_cast<double>(nodes[0].size() - 1) * step_inside(topology, nodes, costs) +
                          tree_depth(nodes.size()) * step_between(topology, nodes, costs));
  return in_turn(std::move(phase));
}

}  // namespace simrun
