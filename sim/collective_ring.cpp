#include "sim/collective_ring.h"

#include <algorithm>
#include <utility>

#include "sim/bus_bandwidth.h"

namespace simrun {

namespace {

double rounds(Opcode opcode) { return opcode == Opcode::all_reduce ? 2 : 1; }

ExchangeFlows node_flows(const Topology& topology, Opcode opcode, Ranks devices, const StepCosts& costs) {
  const auto n = static_cast<double>(devices.size());
  FlowPhase phase;
  phase.latency_s = costs.base_s + rounds(opcode) * (n - 1) * step_inside(topology, {devices}, costs);
  add_rings(topology, devices, bus_factor(opcode, n), opcode != Opcode::broadcast, phase);
  return in_turn(std::move(phase));
}

}  // namespace

ExchangeFlows ring_flows(const Topology& topology, Opcode opcode, Ranks devices, const StepCosts& costs) {
  if (devices.size() <= 1) return {};
  const std::vector<Ranks> nodes = by_node(topology, devices);
  if (nodes.size() == 1) return node_flows(topology, opcode, devices, costs);
  const std::size_t rings = fewest_ranks(nodes);
  const double share = bus_factor(opcode, static_cast<double>(devices.size()));
  FlowPhase phase;
  phase.flows.reserve(rings * nodes.size() + devices.size());
  double crossing_s = 0;
  for (std::size_t ring = 0; ring < rings; ++ring) {
    const NodeRing added = add_node_ring(
        topology, nodes, costs,
        {.rank = ring, .share = share / static_cast<double>(rings), .returns = opcode != Opcode::broadcast},
        phase);
    const bool one_per_node = devices.size() == nodes.size();
    crossing_s = std::max(crossing_s, one_per_node ? added.all_but_one_s : added.latency_s);
  }
  for (const Ranks& node : nodes)
    if (node.size() > 1) add_inside(topology, node, rings, share, phase);
  const std::size_t steps = devices.size() - 1, inside = steps - std::min(steps, nodes.size());
  phase.latency_s = crossing_s + static_cast<double>(inside) * step_inside(topology, nodes, costs);
  phase.latency_s = costs.base_s + rounds(opcode) * phase.latency_s;
  return in_turn(std::move(phase));
}

ExchangeFlows two_level_flows(const Topology& topology, Opcode opcode, Ranks devices,
                              const StepCosts& costs) {
  if (opcode == Opcode::all_to_all || opcode == Opcode::broadcast || devices.empty()) return {};
  const std::vector<Ranks> nodes = by_node(topology, devices);
  const std::size_t k = fewest_ranks(nodes);
  if (nodes.size() == 1 || k == 1 || k * nodes.size() != devices.size()) return {};
  FlowPhase inside, across;
  inside.flows.reserve(devices.size());
  across.flows.reserve(devices.size());
  inside.latency_s = costs.base_s + static_cast<double>(k - 1) * step_inside(topology, nodes, costs);
  for (const Ranks& node : nodes)
    add_rings(topology, node, bus_factor(Opcode::all_gather, static_cast<double>(k)), true, inside);
  const double share = bus_factor(opcode, static_cast<double>(nodes.size())) / static_cast<double>(k);
  for (std::size_t rank = 0; rank < k; ++rank)
    across.latency_s =
        std::max(across.latency_s,
                 add_node_ring(topology, nodes, costs, {.rank = rank, .share = share}, across).all_but_one_s);
  across.latency_s = costs.base_s + rounds(opcode) * across.latency_s;
  if (opcode == Opcode::all_gather) return in_turn(std::move(across), std::move(inside));
  if (opcode == Opcode::reduce_scatter) return in_turn(std::move(inside), std::move(across));
  FlowPhase again = inside;
  return in_turn(std::move(inside), std::move(across), std::move(again));
}

}  // namespace simrun
