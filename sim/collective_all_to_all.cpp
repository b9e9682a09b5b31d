#include "sim/collective_all_to_all.h"

#include <algorithm>
#include <cmath>

namespace simrun {

namespace {

constexpr std::size_t most_pairwise_flows = std::size_t{1} << 22;

}  // namespace

ExchangeFlows direct_all_to_all_flows(const Topology& topology, Ranks devices, const StepCosts& costs) {
  if (devices.size() <= 1) return {};
  const std::vector<Ranks> nodes = by_node(topology, devices);
  const auto part = [&](std::size_t ranks) {
    return static_cast<double>(ranks) / static_cast<double>(devices.size());
  };
  const bool every_pair = devices.size() <= most_pairwise_flows / nodes.size();
  const double step_s = step_inside(topology, nodes, costs);
  ExchangeFlows flows(1);
  FlowPhase& phase = flows.front();
  phase.flows.reserve(devices.size() * (every_pair ? nodes.size() : 2));
  for (std::size_t a = 0; a < nodes.size(); ++a)
    for (std::size_t j = 0; j < nodes[a].size(); ++j) {
      const Ranks& own = nodes[a];
      double latency_s = static_cast<double>(own.size() - 1) * step_s;
      add_to_others(topology, own, j, part(own.size() - 1), phase);
      for (std::size_t step = 1; step < (every_pair ? nodes.size() : std::min<std::size_t>(nodes.size(), 2));
           ++step) {
        const Ranks& other = nodes[(a + step) % nodes.size()];
        const std::size_t ranks = every_pair ? other.size() : devices.size() - own.size();
        add_flow(topology, own[j], other[j % other.size()], part(ranks), phase);
        phase.flows.back().connections = static_cast<std::uint32_t>(ranks);
        latency_s +=
            static_cast<double>(ranks) * std::max(phase.flows.back().route.latency_s, costs.network_s);
      }
      phase.latency_s = std::max(phase.latency_s, latency_s);
    }
  phase.latency_s += costs.base_s;
  return flows;
}

ExchangeFlows hierarchical_all_to_all_flows(const Topology& topology, Ranks devices, double crossing,
                                            const StepCosts& costs) {
  if (devices.size() <= 1) return {};
  const std::vector<Ranks> nodes = by_node(topology, devices);
  const std::size_t k = nodes[0].size();
  if (nodes.size() == 1 || k == 1 || !are_equally_many(nodes)) return {};
  const double to_node = crossing / static_cast<double>(nodes.size());
  double between_s = costs.network_s;
  ExchangeFlows flows(1);
  FlowPhase& phase = flows.front();
  phase.flows.reserve(nodes.size() * k * nodes.size());
  for (std::size_t a = 0; a < nodes.size(); ++a)
    for (std::size_t j = 0; j < k; ++j)
      for (std::size_t step = 1; step < nodes.size(); ++step) {
        add_flow(topology, nodes[a][j], nodes[(a + step) % nodes.size()][j], to_node, phase);
        between_s = std::max(between_s, phase.flows.back().route.latency_s);
      }
  for (const Ranks& node : nodes)
    for (std::size_t j = 0; j < k; ++j)
      add_to_others(topology, node, j, static_cast<double>(k - 1) / static_cast<double>(k), phase);
  phase.latency_s = costs.base_s + static_cast<double>(nodes.size() - 1) * between_s +
                    static_cast<double>(k - 1) * step_inside(topology, nodes, costs);
  return flows;
}

double crossing_share(double nodes, double experts, double limit) {
  if (experts <= 0) return 1;
  double reached = nodes * (1 - std::pow(1 - 1 / nodes, experts));
  if (limit > 0) reached = std::min(reached, limit);
  return std::min(reached / experts, 1.0);
}

}  // namespace simrun
