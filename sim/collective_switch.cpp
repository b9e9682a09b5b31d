#include "sim/collective_switch.h"

#include <algorithm>
#include <utility>

#include "sim/collective_tree.h"

namespace simrun {

namespace {

// Every rank sends and receives this share within its node.
void add_ports(const Topology& topology, const std::vector<Ranks>& nodes, double share, FlowPhase& phase) {
  for (const Ranks& node : nodes) add_rings(topology, node, share, true, phase);
}

// Every rank sends `sent` to the switch and receives `received` from it.
void add_uneven_ports(const Topology& topology, Ranks node, double sent, double received, FlowPhase& phase) {
  add_rings(topology, node, std::min(sent, received), true, phase);
  for (std::size_t j = 0; j < node.size(); ++j) {
    Route port = topology.route(node[j], node[(j + 1) % node.size()]);
    port.link = {received > sent ? port.link.back() : port.link.front()};
    phase.flows.push_back({port, std::max(sent, received) - std::min(sent, received)});
  }
}

// Sums of the nodes, formed in the fabric; returns the longest step.
double add_fabric(const Topology& topology, const std::vector<Ranks>& nodes, const StepCosts& costs,
                  FlowPhase& phase) {
  const std::size_t k = nodes[0].size();
  for (std::size_t rank = 0; rank < k; ++rank)
    add_node_ring(topology, nodes, costs, {.rank = rank, .share = 1 / static_cast<double>(k)}, phase);
  return step_between(topology, nodes, costs);
}

// Nodes with as many ranks each, of an all-reduce over more than one; empty otherwise.
std::vector<Ranks> nodes_to_reduce(const Topology& topology, Opcode opcode, Ranks devices) {
  if (opcode != Opcode::all_reduce || devices.size() <= 1) return {};
  std::vector<Ranks> nodes = by_node(topology, devices);
  if (nodes.size() == 1 || !are_equally_many(nodes)) return {};
  return nodes;
}

ExchangeFlows collnet_flows(const Topology& topology, const std::vector<Ranks>& nodes, const StepCosts& costs,
                            double inside_s) {
  const auto k = static_cast<double>(nodes[0].size());
  FlowPhase phase;
  add_ports(topology, nodes, 2 * (k - 1) / k, phase);
  phase.latency_s = costs.base_s + inside_s + add_fabric(topology, nodes, costs, phase);
  return in_turn(std::move(phase));
}

}  // namespace

ExchangeFlows nvls_flows(const Topology& topology, Opcode opcode, Ranks devices, const StepCosts& costs) {
  if (devices.size() <= 1) return {};
  const std::vector<Ranks> nodes = by_node(topology, devices);
  const auto k = static_cast<double>(nodes[0].size());
  if (k == 1 || !are_equally_many(nodes)) return {};
  FlowPhase phase;
  phase.latency_s = costs.base_s + step_inside(topology, nodes, costs);
  const double taken = 1 / costs.reduction_efficiency;
  if (opcode == Opcode::all_reduce) {
    add_ports(topology, nodes, taken * (k + 1) / k, phase);
    if (nodes.size() > 1) phase.latency_s += add_fabric(topology, nodes, costs, phase);
    return in_turn(std::move(phase));
  }
  if (nodes.size() > 1) return {};
  if (opcode == Opcode::all_gather)
    add_uneven_ports(topology, devices, taken / k, taken, phase);
  else if (opcode == Opcode::reduce_scatter)
    add_uneven_ports(topology, devices, taken, taken / k, phase);
  else
    return {};
  return in_turn(std::move(phase));
}

ExchangeFlows nvls_tree_flows(const Topology& topology, Opcode opcode, Ranks devices,
                              const StepCosts& costs) {
  const std::vector<Ranks> nodes = nodes_to_reduce(topology, opcode, devices);
  if (nodes.empty() || nodes[0].size() == 1) return {};
  const auto k = static_cast<double>(nodes[0].size());
  FlowPhase phase;
  add_ports(topology, nodes, (k + 1) / k / costs.reduction_efficiency, phase);
  add_node_trees(topology, nodes, phase);
  phase.latency_s = costs.base_s + step_inside(topology, nodes, costs) +
                    2 * tree_depth(nodes.size()) * step_between(topology, nodes, costs);
  return in_turn(std::move(phase));
}

ExchangeFlows collnet_direct_flows(const Topology& topology, Opcode opcode, Ranks devices,
                                   const StepCosts& costs) {
  const std::vector<Ranks> nodes = nodes_to_reduce(topology, opcode, devices);
  if (nodes.empty()) return {};
  const auto others = static_cast<double>(nodes[0].size() - 1);
  return collnet_flows(topology, nodes, costs,
                       2 * (step_inside(topology, nodes, costs) + others * costs.rank_s));
}

ExchangeFlows collnet_chain_flows(const Topology& topology, Opcode opcode, Ranks devices,
                                  const StepCosts& costs) {
  const std::vector<Ranks> nodes = nodes_to_reduce(topology, opcode, devices);
  if (nodes.empty()) return {};
  const auto others = static_cast<double>(nodes[0].size() - 1);
  return collnet_flows(topology, nodes, costs, 2 * others * step_inside(topology, nodes, costs));
}

}  // namespace simrun
