#include "sim/collective_tuner.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "sim/bus_bandwidth.h"
#include "sim/collective_all_to_all.h"
#include "sim/collective_pat.h"
#include "sim/collective_ring.h"
#include "sim/collective_switch.h"
#include "sim/collective_tree.h"
#include "sim/exchange_costs.h"
#include "sim/measured_cost.h"

namespace simrun {

namespace {

using enum CollectiveAlgorithm;
using Ways = std::vector<CollectiveChoice>;

// From each rank to the next at the measured rate; a transfer's only edge is from the first to the second.
ExchangeFlows measured_flows(const Topology& topology, const MeasuredExchange& measured, Ranks devices,
                             bool is_transfer) {
  FlowPhase phase;
  phase.latency_s = measured.latency_s;
  for (std::size_t i = 0; i < (is_transfer ? 1 : devices.size()); ++i) {
    const Route route = topology.route(devices[i], devices[(i + 1) % devices.size()]);
    phase.flows.push_back({route, topology.bandwidth(route.link.front()) / measured.bandwidth});
  }
  return in_turn(std::move(phase));
}

std::optional<MeasuredExchange> measured_inside_node(const Topology& topology, Opcode opcode, Ranks devices) {
  if (topology.node_of(devices.front()) != topology.node_of(devices.back())) return std::nullopt;
  return measured_exchange(topology.measured(), opcode, static_cast<std::int64_t>(devices.size()));
}

CollectivePace pace_of(const CollectivesConfig& config, CollectiveChoice way) {
  const auto found = config.paces.find(way);
  return found == config.paces.end() ? CollectivePace{} : found->second;
}

StepCosts costs_of(const Cluster& cluster, const CollectivePace& pace) {
  const bool has_nvlink = cluster.gpu.nvlink_bandwidth > 0 &&
                          std::ranges::all_of(cluster.node_groups, [](const NodeGroup& group) {
                            return group.gpu.nvlink_bandwidth > 0;
                          });
  return {pace.base_s, has_nvlink ? pace.nvlink_s : pace.pcie_s, pace.network_s, pace.rank_s,
          pace.reduction_efficiency};
}

bool have_switches_for(const Topology& topology, const Cluster& cluster, CollectiveAlgorithm algorithm,
                       bool across) {
  const bool in_node =
      topology.is_switched() && cluster.intra_node.sharp &&
      std::ranges::all_of(cluster.node_groups, [](const NodeGroup& group) { return group.intra_node.sharp; });
  switch (algorithm) {
    case nvls: return in_node && (!across || cluster.inter_node.sharp);
    case nvls_tree: return in_node;
    case collnet_direct:
    case collnet_chain: return cluster.inter_node.sharp;
    default: return true;
  }
}

// Flows without a pace's limits; empty where the group is none for the algorithm.
ExchangeFlows built_flows(const Topology& topology, const Cluster& cluster, Opcode opcode, Ranks devices,
                          CollectiveChoice way) {
  const StepCosts costs = costs_of(cluster, pace_of(cluster.collectives, way));
  switch (way.algorithm) {
    case two_level: return two_level_flows(topology, opcode, devices, costs);
    case tree: return tree_flows(topology, opcode, devices, costs);
    case nvls: return nvls_flows(topology, opcode, devices, costs);
    case nvls_tree: return nvls_tree_flows(topology, opcode, devices, costs);
    case collnet_direct: return collnet_direct_flows(topology, opcode, devices, costs);
    case collnet_chain: return collnet_chain_flows(topology, opcode, devices, costs);
    case pat: return pat_flows(topology, opcode, devices, costs);
    case direct: return direct_all_to_all_flows(topology, devices, costs);
    case hierarchical: {
      const double crossing = crossing_share(static_cast<double>(by_node(topology, devices).size()),
                                             static_cast<double>(cluster.collectives.experts_per_token),
                                             static_cast<double>(cluster.collectives.nodes_per_token));
      return hierarchical_all_to_all_flows(topology, devices, crossing, costs);
    }
    default: return ring_flows(topology, opcode, devices, costs);
  }
}

// The most bus bandwidth over so many nodes; 0: unlimited.
double bandwidth_limit(const CollectivesConfig& config, const CollectivePace& pace, std::size_t nodes) {
  const std::array limits{nodes == 1   ? pace.one_node_bandwidth
                          : nodes == 2 ? pace.two_nodes_bandwidth
                                       : pace.more_nodes_bandwidth,
                          static_cast<double>(config.channels) * pace.channel_bandwidth};
  double least = 0;
  for (const double limit : limits)
    if (limit > 0) least = least > 0 ? std::min(least, limit) : limit;
  return least;
}

// An exchange whose way takes only a share of its links' rate, and never less than so many seconds per byte:
// where its links, as its own flows share them, are faster than that, these have as much more to carry.
void slow_down(const Topology& topology, double efficiency, double seconds_per_byte, ExchangeFlows& flows) {
  std::vector<std::vector<double>> busy;
  double total = 0;
  if (seconds_per_byte > 0)
    for (const FlowPhase& phase : flows) {
      busy.push_back(busy_seconds_per_byte(topology, phase));
      if (!busy.back().empty()) total += *std::ranges::max_element(busy.back());
    }
  for (std::size_t p = 0; p < flows.size(); ++p) {
    const double least_s =
        total > 0 && !busy[p].empty() ? seconds_per_byte * *std::ranges::max_element(busy[p]) / total : 0;
    for (std::size_t f = 0; f < flows[p].flows.size(); ++f)
      flows[p].flows[f].share *= std::max(1 / efficiency, least_s > 0 ? least_s / busy[p][f] : 0);
  }
}

Ways known_ways(const CollectivesConfig& config, const std::string& collective, CollectiveAlgorithm forced) {
  Ways ways;
  for (const CollectiveAlgorithm algorithm : algorithms_of(collective)) {
    if (forced != automatic && algorithm != forced) continue;
    // NCCL gathers and scatters so from registered buffers only.
    if (algorithm == nvls && forced != nvls && collective != "all_reduce") continue;
    const std::size_t before = ways.size();
    for (const auto& [way, pace] : config.paces)
      if (way.algorithm == algorithm) ways.push_back(way);
    const bool stands_for_itself = algorithm == forced || algorithm == ring || algorithm == direct ||
                                   (algorithm == two_level && config.paces.empty());
    if (ways.size() == before && stands_for_itself) ways.push_back({algorithm, CollectiveProtocol::simple});
  }
  return ways;
}

// Those with the protocol, if any has it.
Ways with_protocol(const Ways& ways, CollectiveProtocol protocol) {
  Ways kept;
  std::ranges::copy_if(ways, std::back_inserter(kept), [&](CollectiveChoice way) {
    return protocol == CollectiveProtocol::automatic || way.protocol == protocol;
  });
  return kept.empty() ? ways : kept;
}

ExchangeFlows paced_flows(const Topology& topology, const Cluster& cluster, Opcode opcode, Ranks devices,
                          CollectiveChoice way) {
  ExchangeFlows flows = built_flows(topology, cluster, opcode, devices, way);
  const CollectivePace pace = pace_of(cluster.collectives, way);
  if (flows.empty() || cluster.collectives.paces.empty()) return flows;
  const double limit = bandwidth_limit(cluster.collectives, pace, by_node(topology, devices).size());
  if (limit > 0 || pace.efficiency < 1)
    slow_down(topology, pace.efficiency,
              limit > 0 ? bus_factor(opcode, static_cast<double>(devices.size())) / limit : 0, flows);
  return flows;
}

}  // namespace

std::vector<TunedCollective> collective_ways(const Topology& topology, const Cluster& cluster, Opcode opcode,
                                             Ranks devices) {
  if (devices.size() <= 1) return {};
  if (const std::optional<MeasuredExchange> measured = measured_inside_node(topology, opcode, devices))
    return {{{ring, CollectiveProtocol::simple}, measured_flows(topology, *measured, devices, false)}};
  const std::string name = to_string(opcode);
  const bool across = topology.domain_of(devices.front()) != topology.domain_of(devices.back());
  const CollectiveChoice forced = forced_choice(cluster.collectives, name);
  const auto possible = [&](CollectiveAlgorithm algorithm) {
    Ways ways = known_ways(cluster.collectives, name, algorithm);
    std::erase_if(ways, [&](CollectiveChoice way) {
      return !have_switches_for(topology, cluster, way.algorithm, across);
    });
    std::vector<TunedCollective> built;
    for (const CollectiveChoice way : with_protocol(ways, forced.protocol))
      if (ExchangeFlows flows = paced_flows(topology, cluster, opcode, devices, way); !flows.empty())
        built.push_back({way, std::move(flows)});
    return built;
  };
  std::vector<TunedCollective> ways = possible(forced.algorithm);
  return ways.empty() ? possible(opcode == Opcode::all_to_all ? direct : ring) : ways;
}

ExchangeFlows flows_of_way(const Topology& topology, const Cluster& cluster, Opcode opcode, Ranks devices,
                           CollectiveChoice way) {
  if (devices.size() <= 1) return {};
  if (const std::optional<MeasuredExchange> measured = measured_inside_node(topology, opcode, devices))
    return measured_flows(topology, *measured, devices, false);
  return paced_flows(topology, cluster, opcode, devices, way);
}

TunedCollective tuned_collective(const Topology& topology, const Cluster& cluster, Opcode opcode,
                                 Ranks devices, double bytes) {
  TunedCollective tuned;
  double least_s = std::numeric_limits<double>::infinity();
  for (TunedCollective& way : collective_ways(topology, cluster, opcode, devices)) {
    const double time_s = lockstep_seconds(topology, {&way.flows, 1}, bytes);
    if (time_s < least_s) tuned = std::move(way);
    least_s = std::min(least_s, time_s);
  }
  return tuned;
}

ExchangeFlows collective_flows(const Topology& topology, const Cluster& cluster, Opcode opcode,
                               std::span<const std::int64_t> devices, double bytes) {
  return tuned_collective(topology, cluster, opcode, devices, bytes).flows;
}

double most_rate(const Topology& topology, const SharedFlow& flow) {
  const double one = topology.flow_bandwidth();
  if (!std::isinf(one) &&
      std::ranges::any_of(flow.route.links(), [&](LinkIndex link) { return topology.is_network(link); }))
    return one * flow.connections;
  return std::numeric_limits<double>::infinity();
}

ExchangeFlows transfer_flows(const Topology& topology, std::int64_t from, std::int64_t to) {
  if (from == to) return {};
  const std::array<std::int64_t, 2> ends{from, to};
  if (const std::optional<MeasuredExchange> measured = measured_inside_node(topology, Opcode::send, ends))
    return measured_flows(topology, *measured, ends, true);
  const Route route = topology.route(from, to);
  return {{route.latency_s, {{route, 1}}}};
}

double lockstep_seconds(const Topology& topology, std::span<const ExchangeFlows> exchanges, double bytes) {
  return lockstep_costs(topology, exchanges).together.at(bytes);
}

}  // namespace simrun
