#include "configs/network_rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include "configs/limits.h"

namespace simrun {
namespace {

using Faults = std::vector<NetworkFault>;

bool is_below(std::int64_t value, std::size_t end) { return value >= 0 && std::cmp_less(value, end); }

// Each NIC serves equally many GPUs, or each GPU has equally many.
void check_nics(const Cluster& cluster, Faults& faults) {
  const std::int64_t gpus = cluster.gpus_per_node, nics = cluster.nics_per_node;
  if (gpus <= 0 || nics <= 0 || gpus % nics == 0 || nics % gpus == 0) return;
  if (nics > gpus)
    return faults.push_back({"nics_per_node",
                             fmt::format("nics_per_node {} do not divide over {} GPUs", nics, gpus),
                             fmt::format("{} do.", nics / gpus * gpus)});
  std::string divisors;
  for (std::int64_t n = 1; n <= gpus; ++n)
    if (gpus % n == 0) divisors += fmt::format("{}{}", n == 1 ? "" : n == gpus ? " and " : ", ", n);
  faults.push_back({"nics_per_node", fmt::format("{} GPUs do not divide over nics_per_node {}", gpus, nics),
                    divisors + " do."});
}

void check_length(const std::string& key, std::size_t length, std::int64_t wanted, const char* of,
                  Faults& faults) {
  if (std::cmp_equal(length, wanted)) return;
  faults.push_back({"pcie." + key, fmt::format("pcie.{} has {} entries for {} {}", key, length, wanted, of),
                    fmt::format("write the switch of each of the {} {}.", wanted, of)});
}

void check_tree(const Cluster& cluster, Faults& faults) {
  const PcieTree& pcie = cluster.wiring.pcie;
  if (pcie.empty()) return;
  const std::int64_t nics = cluster.nics_per_node > 0 ? cluster.nics_per_node : cluster.gpus_per_node;
  check_length("gpu_switches", pcie.gpu_switches.size(), cluster.gpus_per_node, "GPUs", faults);
  check_length("nic_switches", pcie.nic_switches.size(), nics, "NICs", faults);
  for (const auto& [key, list] :
       {std::pair{"gpu_switches", &pcie.gpu_switches}, std::pair{"nic_switches", &pcie.nic_switches}})
    for (const std::int64_t number : *list)
      if (!is_below(number, pcie.switch_sockets.size())) {
        faults.push_back({std::string("pcie.") + key,
                          fmt::format("pcie.{} names switch {}, and switch_sockets has {}", key, number,
                                      pcie.switch_sockets.size()),
                          "switches count from 0."});
        break;
      }
  for (const std::int64_t socket : pcie.switch_sockets)
    if (!is_below(socket, static_cast<std::size_t>(limits::sockets.most)))
      faults.push_back({"pcie.switch_sockets", fmt::format("there is no CPU socket {}", socket)});
}

std::set<std::pair<std::int64_t, std::int64_t>> linked_pairs(const NodeWiring& wiring) {
  std::set<std::pair<std::int64_t, std::int64_t>> linked;
  for (const NvlinkPair& pair : wiring.nvlinks) {
    linked.insert({pair.first, pair.second});
    linked.insert({pair.second, pair.first});
  }
  return linked;
}

// Two GPUs are linked, or have a neighbour in common, or PCIe connects all.
void check_reach(const Cluster& cluster, Faults& faults) {
  const auto linked = linked_pairs(cluster.wiring);
  for (std::int64_t a = 0; a < cluster.gpus_per_node; ++a)
    for (std::int64_t b = a + 1; b < cluster.gpus_per_node; ++b) {
      bool reaches = linked.contains({a, b});
      for (std::int64_t over = 0; !reaches && over < cluster.gpus_per_node; ++over)
        reaches = linked.contains({a, over}) && linked.contains({over, b});
      if (reaches) continue;
      faults.push_back(
          {"intra_node.nvlinks",
           fmt::format("GPUs {} and {} of a node have neither a link nor a neighbour in common", a, b),
           "a pcie section connects them."});
      return;
    }
}

void check_mesh(const Cluster& cluster, Faults& faults) {
  const NodeWiring& wiring = cluster.wiring;
  std::set<std::pair<std::int64_t, std::int64_t>> seen;
  bool is_good = true;
  for (const NvlinkPair& pair : wiring.nvlinks) {
    const bool is_pair = pair.first >= 0 && pair.first < pair.second && pair.second < cluster.gpus_per_node &&
                         pair.links >= 1 && pair.links <= limits::nvlinks.most;
    if (is_pair && seen.insert({pair.first, pair.second}).second) continue;
    is_good = false;
    faults.push_back({"intra_node.nvlinks",
                      is_pair ? fmt::format("{}-{} is listed twice", pair.first, pair.second)
                              : fmt::format("{}-{}x{} names no two GPUs of {}", pair.first, pair.second,
                                            pair.links, cluster.gpus_per_node),
                      is_pair ? fmt::format("two links are {}-{}x2.", pair.first, pair.second) : ""});
  }
  if (is_good && wiring.pcie.empty()) check_reach(cluster, faults);
}

void check_wiring(const Cluster& cluster, Faults& faults) {
  const NodeWiring& wiring = cluster.wiring;
  check_tree(cluster, faults);
  const bool is_switched = wiring.topology == IntraNodeTopology::nvswitch;
  if (!is_switched && cluster.gpus_per_node > limits::gpus_without_switch)
    return faults.push_back(
        {"intra_node.topology", fmt::format("{} GPUs per node are beyond the {} that may do without a switch",
                                            cluster.gpus_per_node, limits::gpus_without_switch)});
  if (wiring.topology == IntraNodeTopology::nvlink_mesh) check_mesh(cluster, faults);
  if (wiring.topology == IntraNodeTopology::pcie && wiring.pcie.empty())
    faults.push_back({"intra_node.topology", "topology pcie needs a pcie section",
                      "it says which switch each GPU and NIC hangs on."});
  if (cluster.intra_node.sharp && !is_switched)
    faults.push_back(
        {"intra_node.sharp", "only a topology of nvswitch has switches that reduce", "write sharp: false."});
  if (!wiring.gpu_direct && wiring.pcie.empty())
    faults.push_back({"gpu_direct", "without gpu_direct traffic takes the PCIe tree, which is not described",
                      "add a pcie section."});
  if (wiring.nodes_per_domain > 1 && !is_switched)
    faults.push_back({"intra_node.nodes_per_domain", "only a topology of nvswitch reaches over several nodes",
                      "write nodes_per_domain: 1."});
}

void check_flows(const Cluster& cluster, Faults& faults) {
  const double most = cluster.inter_node.flow_bandwidth;
  if (most == 0 || (most >= limits::bandwidth.least && most <= limits::bandwidth.most)) return;
  faults.push_back({"inter_node.flow_bandwidth", fmt::format("a flow gets at most {} bytes/s", most),
                    fmt::format("from {:.0f} MB/s on, or 0 for no limit.", 1e-6 * limits::bandwidth.least)});
}

void check_torus(const Cluster& cluster, Faults& faults) {
  const Fabric& fabric = cluster.fabric;
  if (fabric.torus.empty() || fabric.torus.size() > 3)
    return faults.push_back(
        {"fabric.torus", fmt::format("a torus has one to three dimensions, not {}", fabric.torus.size())});
  double gpus = 1;
  std::int64_t hops = 0;
  for (const std::int64_t size : fabric.torus) {
    gpus *= static_cast<double>(size);
    hops += fabric.torus_wraps ? size / 2 : size - 1;
    if (size < 1 || size > limits::world)
      return faults.push_back({"fabric.torus", fmt::format("a dimension cannot have {} GPUs", size)});
  }
  const auto have = static_cast<double>(cluster.nodes * cluster.gpus_per_node);
  if (cluster.nodes > 0 && cluster.gpus_per_node > 0 && gpus != have)
    faults.push_back(
        {"fabric.torus",
         fmt::format("a torus of {} is {} GPUs, and {} nodes x {} are {}", fmt::join(fabric.torus, " x "),
                     gpus, cluster.nodes, cluster.gpus_per_node, have),
         "the product of its dimensions is the number of GPUs."});
  if (hops > limits::torus_hops)
    faults.push_back({"fabric.torus", fmt::format("a route of up to {} hops is beyond simrun's {}", hops,
                                                  limits::torus_hops)});
}

std::int64_t ports_of(const Cluster& cluster) {
  return cluster.nics_per_node == 0 ? cluster.gpus_per_node
                                    : std::min(cluster.nics_per_node, cluster.gpus_per_node);
}

double fabric_links(const Cluster& cluster) {
  const Fabric& fabric = cluster.fabric;
  const std::int64_t whole_leaves = (cluster.nodes - 1) / fabric.nodes_per_leaf + 1;
  const auto leaves = static_cast<double>(whole_leaves);
  const auto spines = static_cast<double>(fabric.spines);
  double pairs = leaves * static_cast<double>(fabric.rail_optimized ? ports_of(cluster) : 1) * spines;
  const double pods = leaves / static_cast<double>(std::max<std::int64_t>(fabric.leaves_per_pod, 1)) + 1;
  if (fabric.topology == FabricTopology::fat_tree) pairs += pods * static_cast<double>(fabric.cores);
  if (fabric.topology == FabricTopology::dragonfly_plus) pairs += spines * pods * pods / 2;
  return 2 * pairs * static_cast<double>(fabric.planes);
}

void check_pods(const Cluster& cluster, Faults& faults) {
  const Fabric& fabric = cluster.fabric;
  if (fabric.topology == FabricTopology::leaf_spine) return;
  if (fabric.leaves_per_pod < 1 || fabric.core_oversubscription < 1 || !(fabric.core_latency_s >= 0))
    faults.push_back(
        {"fabric.leaves_per_pod",
         fmt::format("the fabric has {} leaves per pod, core oversubscription {} and core "
                     "latency {} s",
                     fabric.leaves_per_pod, fabric.core_oversubscription, fabric.core_latency_s)});
  if (fabric.topology != FabricTopology::fat_tree) return;
  if (fabric.cores < 1 || fabric.cores % std::max<std::int64_t>(fabric.spines, 1) != 0)
    faults.push_back({"fabric.cores",
                      fmt::format("{} core switches do not divide over the {} spines of a pod", fabric.cores,
                                  fabric.spines),
                      fmt::format("each spine has a link to cores / spines of them: {} do.",
                                  (std::max<std::int64_t>(fabric.cores, 1) - 1) /
                                          std::max<std::int64_t>(fabric.spines, 1) * fabric.spines +
                                      fabric.spines)});
}

void check_rails(const Cluster& cluster, Faults& faults) {
  const Fabric& fabric = cluster.fabric;
  if (fabric.rail_only && !fabric.rail_optimized)
    faults.push_back({"fabric.rail_only", "rail_only without rail_optimized: there are no rails",
                      "write rail_optimized: true."});
  if (fabric.rail_only && !fabric.pxn)
    faults.push_back(
        {"fabric.pxn", "with rail_only nothing reaches another rail without pxn", "write pxn: true."});
  if (fabric.pxn && cluster.wiring.topology == IntraNodeTopology::pcie)
    faults.push_back({"fabric.pxn", "traffic changes its rail over NVLink (PXN), and the node has none",
                      "write pxn: false."});
}

void check_switches(const Cluster& cluster, Faults& faults) {
  const Fabric& fabric = cluster.fabric;
  if (fabric.nodes_per_leaf < 1 || fabric.spines < 1 || cluster.nodes < 1) return;
  check_pods(cluster, faults);
  check_rails(cluster, faults);
  if (fabric.planes < 1 || fabric.planes > limits::planes.most)
    return faults.push_back({"fabric.planes", fmt::format("the fabric has {} planes", fabric.planes)});
  if (fabric_links(cluster) <= static_cast<double>(limits::leaf_links)) return;
  const std::int64_t leaves = ((cluster.nodes - 1) / fabric.nodes_per_leaf + 1) *
                              (fabric.rail_optimized ? std::max<std::int64_t>(ports_of(cluster), 1) : 1);
  faults.push_back({"fabric.spines", fmt::format("{} leaves x {} spines have more links than simrun's {}",
                                                 leaves, fabric.spines, limits::leaf_links)});
}

// Groups say nothing of what lies between GPUs but of the links themselves.
void check_groups(const Cluster& cluster, Faults& faults) {
  if (cluster.node_groups.empty()) return;
  std::int64_t nodes = 0;
  for (const NodeGroup& group : cluster.node_groups) {
    if (group.nodes < 1 || group.nodes > limits::nodes.most)
      return faults.push_back({"node_groups", fmt::format("group {} has {} nodes", group.name, group.nodes)});
    nodes += group.nodes;
  }
  if (nodes != cluster.nodes)
    faults.push_back({"node_groups", fmt::format("the groups have {} nodes of {}", nodes, cluster.nodes)});
  const bool same_links = std::ranges::all_of(cluster.node_groups, [&](const NodeGroup& group) {
    return group.intra_node == cluster.node_groups.front().intra_node;
  });
  if (same_links) return;
  if (cluster.wiring.topology == IntraNodeTopology::pcie)
    faults.push_back({"node_groups", "links of unlike groups on PCIe are those of cluster.pcie",
                      "leave out the groups' intra_node."});
  if (cluster.wiring.nodes_per_domain > 1)
    faults.push_back({"node_groups", "an NVLink domain over several nodes has one kind of link",
                      "write nodes_per_domain: 1."});
  if (!cluster.measured.empty())
    faults.push_back({"node_groups", "exchanges that were measured stand for one kind of node",
                      "leave out cluster.measured."});
}

}  // namespace

std::vector<NetworkFault> network_faults(const Cluster& cluster) {
  Faults faults;
  check_nics(cluster, faults);
  check_groups(cluster, faults);
  check_flows(cluster, faults);
  check_wiring(cluster, faults);
  if (cluster.fabric.topology == FabricTopology::torus)
    check_torus(cluster, faults);
  else if (cluster.fabric.topology != FabricTopology::non_blocking)
    check_switches(cluster, faults);
  return faults;
}

}  // namespace simrun
