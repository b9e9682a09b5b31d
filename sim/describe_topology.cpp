#include "sim/describe_topology.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "configs/node_groups.h"
#include "sim/collective_flows.h"

namespace simrun {
namespace {

// Runs of digits become '*'; "pcie0" and "pcie12" are one class.
std::string class_name(const std::string& name) {
  std::string text;
  for (const char c : name) {
    const bool is_digit = c >= '0' && c <= '9';
    if (!is_digit)
      text += c;
    else if (text.empty() || text.back() != '*')
      text += '*';
  }
  return text;
}

std::vector<TopologyReport::Links> link_classes_of(const Topology& topology) {
  std::vector<TopologyReport::Links> classes;
  std::map<std::pair<std::string, double>, std::size_t> number;
  for (LinkIndex link = 0; link < topology.links(); ++link) {
    const double bandwidth = topology.bandwidth(link);
    std::string name = class_name(topology.name(link));
    const auto [found, is_new] = number.try_emplace({name, bandwidth}, classes.size());
    if (is_new) classes.push_back({std::move(name), 0, bandwidth});
    ++classes[found->second].count;
  }
  return classes;
}

std::string relation(const Topology& topology, std::int64_t from, std::int64_t to) {
  if (topology.node_of(from) == topology.node_of(to)) return "same node";
  if (topology.domain_of(from) == topology.domain_of(to)) return "same NVLink domain";
  const SwitchFabric* const switches = topology.switches();
  if (switches == nullptr) return "other node";
  const std::int64_t own = topology.node_of(from), other = topology.node_of(to);
  const bool same_rail = topology.rail_of(from) == topology.rail_of(to);
  std::string text = "other pod";
  if (switches->pod_of(own) == switches->pod_of(other)) {
    const bool same_nodes = own / switches->nodes_per_leaf() == other / switches->nodes_per_leaf();
    text = same_nodes ? "same leaf" : "other leaf";
    if (same_nodes && switches->has_rails() && !same_rail) text = "same nodes' leaf";
  }
  return switches->has_rails() ? text + (same_rail ? ", same rail" : ", other rail") : text;
}

std::vector<TopologyReport::Routes> route_classes_of(const Topology& topology, std::int64_t devices) {
  constexpr std::int64_t most_devices = 1'000'000;
  const std::int64_t senders = devices > most_devices ? 1 : topology.gpus_per_node();
  using Key = std::tuple<std::string, std::size_t, double, double>;
  std::map<Key, std::size_t> number;
  std::vector<TopologyReport::Routes> classes;
  for (std::int64_t from = 0; from < senders; ++from)
    for (std::int64_t to = 0; to < devices; ++to) {
      if (from == to) continue;
      const Route route = topology.route(from, to);
      double slowest = most_rate(topology, {route});
      for (const LinkIndex link : route.links()) slowest = std::min(slowest, topology.bandwidth(link));
      const std::string between = relation(topology, from, to);
      const auto [found, is_new] =
          number.try_emplace({between, route.count(), slowest, route.latency_s}, classes.size());
      if (is_new) {
        classes.push_back(
            {between, 0, static_cast<std::int64_t>(route.count()), slowest, route.latency_s, {}});
        for (const LinkIndex link : route.links()) classes.back().example.push_back(topology.name(link));
      }
      ++classes[found->second].pairs;
    }
  return classes;
}

// Of the nodes below `half` what leaves them over the leaves' uplinks and the pods', NICs of `nic` bytes/s
// per node. A switch that serves both halves lets all pass that it has.
double switch_bisection(const SwitchFabric& switches, std::int64_t half, double nic) {
  const std::int64_t per_leaf = switches.nodes_per_leaf();
  const auto of_nodes = [&](std::int64_t first, std::int64_t end) {
    double sum = 0;
    for (std::int64_t node = first; node < end;) {
      const std::int64_t next = std::min((node / per_leaf + 1) * per_leaf, end);
      const double all = static_cast<double>(next - node) * nic;
      const bool serves_both = end == half && half % per_leaf != 0 && next == end;
      sum += serves_both ? all : std::min(all, switches.leaf_group_uplinks());
      node = next;
    }
    return sum;
  };
  if (switches.pods() == 1) return of_nodes(0, half);
  const std::int64_t per_pod = per_leaf * switches.leaves_per_pod();
  double sum = 0;
  for (std::int64_t node = 0; node < half;) {
    const std::int64_t next = std::min((node / per_pod + 1) * per_pod, half);
    const bool serves_both = half % per_pod != 0 && next == half;
    const double leaves = of_nodes(node, next);
    const std::int64_t beyond = switches.pods() - (half - 1) / per_pod - 1;
    sum += serves_both ? leaves : std::min(leaves, switches.pod_uplinks(beyond));
    node = next;
  }
  return sum;
}

double torus_bisection(const Fabric& fabric, double link) {
  std::int64_t longest = 1, all = 1;
  for (const std::int64_t size : fabric.torus) {
    longest = std::max(longest, size);
    all *= size;
  }
  const std::int64_t across = all / longest;  // links that a cut through the middle of the longest side meets
  return static_cast<double>(across) * (fabric.torus_wraps ? 2 : 1) * link;
}

// What the GPUs or NICs of half the nodes send at most.
double unlimited_bisection(const Cluster& cluster) {
  const std::int64_t half = cluster.nodes / 2;
  const bool is_domain = cluster.nodes <= cluster.wiring.nodes_per_domain;
  const LinkClass& link = is_domain ? cluster.intra_node : cluster.inter_node;
  const std::int64_t nics = cluster.nics_per_node == 0 ? cluster.gpus_per_node : cluster.nics_per_node;
  return static_cast<double>(half * (is_domain ? cluster.gpus_per_node : nics)) * link.bandwidth *
         link.efficiency;
}

}  // namespace

double bisection_bandwidth(const Cluster& cluster) {
  if (cluster.fabric.topology == FabricTopology::torus)
    return torus_bisection(cluster.fabric, cluster.inter_node.bandwidth * cluster.inter_node.efficiency);
  const double unlimited = unlimited_bisection(cluster);
  const Topology topology(cluster);
  if (topology.switches() == nullptr || cluster.nodes < 2 || cluster.nodes <= cluster.wiring.nodes_per_domain)
    return unlimited;
  const std::int64_t half = cluster.nodes / 2;
  return std::min(unlimited,
                  switch_bisection(*topology.switches(), half, unlimited / static_cast<double>(half)));
}

TopologyReport describe_topology(const Cluster& cluster) {
  const Topology topology(cluster);
  TopologyReport report;
  report.cluster = cluster.name;
  report.gpu = gpus_text(cluster);
  report.has_gpu_kinds = GpuKinds(cluster).count() > 1;
  report.nodes = cluster.nodes;
  report.gpus_per_node = cluster.gpus_per_node;
  report.nics_per_node = cluster.nics_per_node;
  report.links = link_classes_of(topology);
  report.routes = route_classes_of(topology, cluster.nodes * cluster.gpus_per_node);
  report.bisection = bisection_bandwidth(cluster);
  report.unlimited_bisection =
      cluster.fabric.topology == FabricTopology::torus ? report.bisection : unlimited_bisection(cluster);
  return report;
}

}  // namespace simrun
