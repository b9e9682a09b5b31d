#include "sim/collective_flows.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "sim/exchange_costs.h"
#include "sim/measured_cost.h"

namespace simrun {

namespace {

using Ranks = std::span<const std::int64_t>;

constexpr std::size_t most_pairwise_flows = std::size_t{1} << 22;

// The ranks of each node, in the order of the nodes.
std::vector<Ranks> by_node(const Topology& topology, Ranks devices) {
  std::vector<Ranks> nodes;
  for (std::size_t first = 0, i = 1; i <= devices.size(); ++i)
    if (i == devices.size() || topology.node_of(devices[i]) != topology.node_of(devices[first])) {
      nodes.push_back(devices.subspan(first, i - first));
      first = i;
    }
  return nodes;
}

std::size_t fewest_ranks(const std::vector<Ranks>& nodes) {
  std::size_t fewest = nodes.front().size();
  for (const Ranks& node : nodes) fewest = std::min(fewest, node.size());
  return fewest;
}

// Of one hop inside a node; 0 where each node has one rank.
double hop_latency(const Topology& topology, const std::vector<Ranks>& nodes) {
  for (const Ranks& node : nodes)
    if (node.size() > 1 && node[0] != node[1]) return topology.route(node[0], node[1]).latency_s;
  return 0;
}

void add_flow(const Topology& topology, std::int64_t from, std::int64_t to, double share, FlowPhase& phase) {
  if (from != to && share > 0) phase.flows.push_back({topology.route(from, to), share});
}

// A ring over the `rank`-th device of every node.
struct NodeRing {
  std::size_t rank = 0;
  double share = 1;          // of the bytes, on each edge
  bool returns = true;       // has an edge from the last node to the first
  double latency_s = 0;      // all its edges
  double all_but_one_s = 0;  // without the fastest
};

NodeRing add_node_ring(const Topology& topology, const std::vector<Ranks>& nodes, NodeRing ring,
                       FlowPhase& phase) {
  double fastest_s = std::numeric_limits<double>::infinity();
  for (std::size_t a = 0; a < nodes.size(); ++a) {
    const Route route = topology.route(nodes[a][ring.rank], nodes[(a + 1) % nodes.size()][ring.rank]);
    ring.latency_s += route.latency_s;
    fastest_s = std::min(fastest_s, route.latency_s);
    if (ring.returns || a + 1 < nodes.size()) phase.flows.push_back({route, ring.share});
  }
  ring.all_but_one_s = ring.latency_s - fastest_s;
  return ring;
}

// The edges from each rank of a node to the next, where `rings` rings enter the node at its first ranks and
// leave it before they would return there.
void add_inside(const Topology& topology, Ranks node, std::size_t rings, double share, FlowPhase& phase) {
  const double entering = rings == 0 ? 1 : static_cast<double>(rings - 1) / static_cast<double>(rings);
  for (std::size_t j = 0; j < node.size(); ++j) {
    const std::size_t next = (j + 1) % node.size();
    add_flow(topology, node[j], node[next], next < rings ? entering * share : share, phase);
  }
}

double share_of(Opcode opcode, double ranks) {
  if (opcode == Opcode::broadcast) return 1;
  return (opcode == Opcode::all_reduce ? 2 : 1) * ((ranks - 1) / ranks);
}

// From each rank to the next at the measured rate; a transfer's only edge is from the first to the second.
ExchangeFlows measured_flows(const Topology& topology, const MeasuredExchange& measured, Ranks devices,
                             bool is_transfer) {
  FlowPhase phase;
  phase.latency_s = measured.latency_s;
  for (std::size_t i = 0; i < (is_transfer ? 1 : devices.size()); ++i) {
    const Route route = topology.route(devices[i], devices[(i + 1) % devices.size()]);
    phase.flows.push_back({route, topology.bandwidth(route.link.front()) / measured.bandwidth});
  }
  return {phase};
}

std::optional<ExchangeFlows> measured_inside_node(const Topology& topology, Opcode opcode, Ranks devices) {
  if (topology.node_of(devices.front()) != topology.node_of(devices.back())) return std::nullopt;
  const auto ranks = static_cast<std::int64_t>(devices.size());
  const std::optional<MeasuredExchange> measured = measured_exchange(topology.measured(), opcode, ranks);
  if (!measured) return std::nullopt;
  return measured_flows(topology, *measured, devices, opcode == Opcode::send);
}

ExchangeFlows node_flows(const Topology& topology, Opcode opcode, Ranks devices) {
  const auto n = static_cast<double>(devices.size());
  FlowPhase phase;
  phase.latency_s = (opcode == Opcode::all_reduce ? 2 : 1) * (n - 1) * hop_latency(topology, {devices});
  add_inside(topology, devices, 0, share_of(opcode, n), phase);
  if (opcode == Opcode::broadcast && !phase.flows.empty()) phase.flows.pop_back();
  return {phase};
}

ExchangeFlows all_to_all_flows(const Topology& topology, Ranks devices) {
  const std::vector<Ranks> nodes = by_node(topology, devices);
  const auto part = [&](std::size_t ranks) {
    return static_cast<double>(ranks) / static_cast<double>(devices.size());
  };
  const bool every_pair = devices.size() <= most_pairwise_flows / nodes.size();
  const double hop_s = hop_latency(topology, nodes);
  FlowPhase phase;
  for (std::size_t a = 0; a < nodes.size(); ++a)
    for (std::size_t j = 0; j < nodes[a].size(); ++j) {
      const Ranks& own = nodes[a];
      double latency_s = static_cast<double>(own.size() - 1) * hop_s;
      add_flow(topology, own[j], own[(j + 1) % own.size()], part(own.size() - 1), phase);
      for (std::size_t step = 1; step < (every_pair ? nodes.size() : std::min<std::size_t>(nodes.size(), 2));
           ++step) {
        const Ranks& other = nodes[(a + step) % nodes.size()];
        const std::size_t ranks = every_pair ? other.size() : devices.size() - own.size();
        add_flow(topology, own[j], other[j % other.size()], part(ranks), phase);
        latency_s += static_cast<double>(ranks) * phase.flows.back().route.latency_s;
      }
      phase.latency_s = std::max(phase.latency_s, latency_s);
    }
  return {phase};
}

}  // namespace

ExchangeFlows ring_flows(const Topology& topology, Opcode opcode, std::span<const std::int64_t> devices) {
  if (devices.size() <= 1) return {};
  if (std::optional<ExchangeFlows> measured = measured_inside_node(topology, opcode, devices))
    return *measured;
  if (opcode == Opcode::all_to_all) return all_to_all_flows(topology, devices);
  const std::vector<Ranks> nodes = by_node(topology, devices);
  if (nodes.size() == 1) return node_flows(topology, opcode, devices);
  const std::size_t rings = fewest_ranks(nodes);
  const double share = share_of(opcode, static_cast<double>(devices.size()));
  FlowPhase phase;
  double crossing_s = 0;
  for (std::size_t ring = 0; ring < rings; ++ring) {
    const NodeRing added = add_node_ring(
        topology, nodes,
        {.rank = ring, .share = share / static_cast<double>(rings), .returns = opcode != Opcode::broadcast},
        phase);
    const bool one_per_node = devices.size() == nodes.size();
    crossing_s = std::max(crossing_s, one_per_node ? added.all_but_one_s : added.latency_s);
  }
  for (const Ranks& node : nodes)
    if (node.size() > 1) add_inside(topology, node, rings, share, phase);
  const std::size_t hops = devices.size() - 1, inside = hops - std::min(hops, nodes.size());
  phase.latency_s = crossing_s + static_cast<double>(inside) * hop_latency(topology, nodes);
  if (opcode == Opcode::all_reduce) phase.latency_s *= 2;
  return {phase};
}

ExchangeFlows two_level_flows(const Topology& topology, Opcode opcode,
                              std::span<const std::int64_t> devices) {
  if (opcode == Opcode::all_to_all || opcode == Opcode::broadcast || devices.empty()) return {};
  const std::vector<Ranks> nodes = by_node(topology, devices);
  const std::size_t k = fewest_ranks(nodes);
  if (nodes.size() == 1 || k == 1 || k * nodes.size() != devices.size()) return {};
  FlowPhase inside, across;
  inside.latency_s = static_cast<double>(k - 1) * hop_latency(topology, nodes);
  for (const Ranks& node : nodes)
    add_inside(topology, node, 0, share_of(Opcode::all_gather, static_cast<double>(k)), inside);
  const double share = share_of(opcode, static_cast<double>(nodes.size())) / static_cast<double>(k);
  for (std::size_t rank = 0; rank < k; ++rank)
    across.latency_s =
        std::max(across.latency_s,
                 add_node_ring(topology, nodes, {.rank = rank, .share = share}, across).all_but_one_s);
  if (opcode == Opcode::all_gather) return {across, inside};
  if (opcode == Opcode::reduce_scatter) return {inside, across};
  across.latency_s *= 2;
  return {inside, across, inside};
}

ExchangeFlows collective_flows(const Topology& topology, Opcode opcode, std::span<const std::int64_t> devices,
                               double bytes) {
  ExchangeFlows ring = ring_flows(topology, opcode, devices);
  ExchangeFlows two_level = two_level_flows(topology, opcode, devices);
  const bool is_ring = two_level.empty() || lockstep_seconds(topology, {&ring, 1}, bytes) <=
                                                lockstep_seconds(topology, {&two_level, 1}, bytes);
  return is_ring ? ring : two_level;
}

ExchangeFlows transfer_flows(const Topology& topology, std::int64_t from, std::int64_t to) {
  if (from == to) return {};
  const std::array<std::int64_t, 2> ends{from, to};
  if (std::optional<ExchangeFlows> measured = measured_inside_node(topology, Opcode::send, ends))
    return *measured;
  const Route route = topology.route(from, to);
  return {{route.latency_s, {{route, 1}}}};
}

double lockstep_seconds(const Topology& topology, std::span<const ExchangeFlows> exchanges, double bytes) {
  return lockstep_costs(topology, exchanges).together.at(bytes);
}

}  // namespace simrun
