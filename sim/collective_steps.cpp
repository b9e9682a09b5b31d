#include "sim/collective_steps.h"

#include <algorithm>
#include <limits>

#include "sim/mesh_rings.h"

namespace simrun {

std::vector<Ranks> by_node(const Topology& topology, Ranks devices) {
  std::vector<Ranks> nodes;
  for (std::size_t first = 0, i = 1; i <= devices.size(); ++i)
    if (i == devices.size() || topology.domain_of(devices[i]) != topology.domain_of(devices[first])) {
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

bool are_equally_many(const std::vector<Ranks>& nodes) {
  return std::ranges::all_of(nodes, [&](const Ranks& node) { return node.size() == nodes.front().size(); });
}

double step_inside(const Topology& topology, const std::vector<Ranks>& nodes, const StepCosts& costs) {
  if (costs.inside_s > 0) return costs.inside_s;
  double longest_s = 0;
  for (const Ranks& node : nodes)
    for (std::size_t j = 0; j + 1 < node.size(); ++j) {
      if (node[j] != node[j + 1])
        longest_s = std::max(longest_s, topology.route(node[j], node[j + 1]).latency_s);
      if (topology.is_switched() && longest_s > 0) return longest_s;  // all are alike
    }
  return longest_s;
}

void add_flow(const Topology& topology, std::int64_t from, std::int64_t to, double share, FlowPhase& phase) {
  if (from != to && share > 0) phase.flows.push_back({topology.route(from, to), share});
}

NodeRing add_node_ring(const Topology& topology, const std::vector<Ranks>& nodes, const StepCosts& costs,
                       NodeRing ring, FlowPhase& phase) {
  double fastest_s = std::numeric_limits<double>::infinity();
  for (std::size_t a = 0; a < nodes.size(); ++a) {
    const Route route = topology.route(nodes[a][ring.rank], nodes[(a + 1) % nodes.size()][ring.rank]);
    const double step_s = std::max(route.latency_s, costs.network_s);
    ring.latency_s += step_s;
    fastest_s = std::min(fastest_s, step_s);
    if (ring.returns || a + 1 < nodes.size()) phase.flows.push_back({route, ring.share});
  }
  ring.all_but_one_s = ring.latency_s - fastest_s;
  return ring;
}

void add_rings(const Topology& topology, Ranks node, double share, bool returns, FlowPhase& phase) {
  const std::vector<std::vector<std::int64_t>> rings = rings_inside(topology, node);
  for (const std::vector<std::int64_t>& ring : rings)
    for (std::size_t j = 0; j + (returns ? 0 : 1) < ring.size(); ++j)
      add_flow(topology, ring[j], ring[(j + 1) % ring.size()], share / static_cast<double>(rings.size()),
               phase);
}

void add_to_others(const Topology& topology, Ranks node, std::size_t rank, double share, FlowPhase& phase) {
  const std::size_t n = node.size(), others = topology.is_switched() ? 1 : n - 1;
  for (std::size_t step = 1; step <= others; ++step)
    add_flow(topology, node[rank], node[(rank + step) % n], share / static_cast<double>(others), phase);
}

void add_inside(const Topology& topology, Ranks node, std::size_t rings, double share, FlowPhase& phase) {
  const double entering = static_cast<double>(rings - 1) / static_cast<double>(rings);
  for (std::size_t j = 0; j < node.size(); ++j) {
    const std::size_t next = (j + 1) % node.size();
    add_flow(topology, node[j], node[next], next < rings ? entering * share : share, phase);
  }
}

}  // namespace simrun
