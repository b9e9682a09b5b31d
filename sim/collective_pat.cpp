#include "sim/collective_pat.h"

#include <algorithm>
#include <bit>

namespace simrun {

namespace {

// Every rank sends the same parts `distance` places on.
FlowPhase step_of(const Topology& topology, Ranks devices, std::size_t distance, const StepCosts& costs) {
  const std::size_t n = devices.size();
  // Of each tree: the places 0, 2 d, 4 d ... that have a part send it d on, if there is such a place.
  const std::size_t parts = (n - distance - 1) / (2 * distance) + 1;
  FlowPhase phase;
  phase.latency_s = costs.network_s;
  for (std::size_t rank = 0; rank < n; ++rank) {
    add_flow(topology, devices[rank], devices[(rank + distance) % n],
             static_cast<double>(parts) / static_cast<double>(n), phase);
    phase.latency_s = std::max(phase.latency_s, phase.flows.back().route.latency_s);
  }
  return phase;
}

}  // namespace

ExchangeFlows pat_flows(const Topology& topology, Opcode opcode, Ranks devices, const StepCosts& costs) {
  if (devices.size() <= 1 || (opcode != Opcode::all_gather && opcode != Opcode::reduce_scatter)) return {};
  if (by_node(topology, devices).size() != devices.size()) return {};
  ExchangeFlows phases;
  for (std::size_t distance = std::bit_floor(devices.size() - 1); distance > 0; distance /= 2)
    phases.push_back(step_of(topology, devices, distance, costs));
  if (opcode == Opcode::reduce_scatter) std::reverse(phases.begin(), phases.end());
  phases.front().latency_s += costs.base_s + static_cast<double>(devices.size()) * costs.rank_s;
  return phases;
}

}  // namespace simrun
