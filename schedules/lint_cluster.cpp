#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "configs/limits.h"
#include "configs/network_rules.h"
#include "schedules/lint_checks.h"

// The plan's devices are in its cluster, and its links have numbers (sim/topology.h) and move bytes.
namespace simrun {
namespace {

bool is_within(std::int64_t value, IntegerRange range) { return value >= range.least && value <= range.most; }

void check_link(const char* name, const LinkClass& link, Findings& findings) {
  const double bandwidth = link.bandwidth * link.efficiency;
  if (!(bandwidth > 0) || !std::isfinite(bandwidth) || !(link.latency_s >= 0))
    findings.add(fmt::format("{} links have bandwidth {} x {} and latency {} s", name, link.bandwidth,
                             link.efficiency, link.latency_s));
}

void check_fabric(const Cluster& cluster, Findings& findings) {
  const Fabric& fabric = cluster.fabric;
  if (fabric.topology == FabricTopology::non_blocking || fabric.topology == FabricTopology::torus) return;
  if (!is_within(fabric.nodes_per_leaf, limits::nodes) || !is_within(fabric.spines, limits::spines) ||
      !(fabric.oversubscription >= limits::oversubscription.least &&
        fabric.oversubscription <= limits::oversubscription.most) ||
      !(fabric.spine_latency_s >= 0))
    return findings.add(
        fmt::format("the fabric has {} nodes per leaf, {} spines, oversubscription {} and spine latency {} s",
                    fabric.nodes_per_leaf, fabric.spines, fabric.oversubscription, fabric.spine_latency_s));
}

// Beyond what holds of a fabric of leaves and spines.
void check_network(const Cluster& cluster, Findings& findings) {
  const Fabric& fabric = cluster.fabric;
  const PcieTree& pcie = cluster.wiring.pcie;
  if (!pcie.empty()) check_link("pcie", pcie.link, findings);
  const auto [least, most] =
      std::ranges::minmax(pcie.switch_sockets.empty() ? std::vector<std::int64_t>{0} : pcie.switch_sockets);
  if (least != most) check_link("socket", pcie.socket_link, findings);
  if (!(fabric.hop_latency_s >= 0))
    findings.add(fmt::format("a hop of the torus has latency {} s", fabric.hop_latency_s));
  if (cluster.wiring.nodes_per_domain < 1)
    findings.add(fmt::format("an NVLink domain has {} nodes", cluster.wiring.nodes_per_domain));
  for (const NetworkFault& fault : network_faults(cluster)) findings.add(fault.message);
}

bool is_rate(double rate) { return rate > 0 && std::isfinite(rate); }

// Rates that times are divided by.
void check_measured(const MeasuredKernels& kernels, Findings& findings) {
  const bool products = std::ranges::all_of(kernels.products, [&](const MeasuredKernels::Product& of) {
    return is_rate(of.flops) && of.m > 0 && of.n > 0 && of.k > 0;
  });
  const auto is_attention = [&](const MeasuredKernels::Attention& of) {
    return is_rate(of.flops) && of.sequence > 0 && of.head_dim > 0;
  };
  const bool rows = std::ranges::all_of(kernels.kernels, [&](const auto& of) { return is_rate(of.second); });
  if (!products || !rows || !std::ranges::all_of(kernels.attention, is_attention) ||
      !std::ranges::all_of(kernels.attention_backward, is_attention))
    findings.add("a measured rate of the GPU is not above 0, or its sizes are not");
}

void check_measured_exchanges(const Cluster& cluster, Findings& findings) {
  for (const auto& [name, exchanges] : cluster.measured)
    for (const MeasuredExchange& of : exchanges)
      if (!is_rate(of.bandwidth) || !(of.latency_s >= 0) || of.ranks < 2)
        findings.add(fmt::format("measured {} over {} ranks has bandwidth {} and latency {} s", name,
                                 of.ranks, of.bandwidth, of.latency_s));
}

void check_devices(const Plan& plan, Findings& findings) {
  const std::int64_t gpus = plan.cluster.nodes * plan.cluster.gpus_per_node;
  for (std::size_t rank = 0; rank < plan.stages.size(); ++rank)
    for (const DeviceRange& range : plan.stages[rank].devices)
      if (range.first + range.count > gpus)
        findings.add(fmt::format("pipeline rank {} has {} devices from {} in a cluster of {} nodes x {} GPUs",
                                 rank, range.count, range.first, plan.cluster.nodes,
                                 plan.cluster.gpus_per_node));
}

// A device computes for one rank.
void check_distinct_devices(const Plan& plan, Findings& findings) {
  struct Owned {
    DeviceRange range;
    std::size_t rank = 0;
  };
  std::vector<Owned> owned;
  for (std::size_t rank = 0; rank < plan.stages.size(); ++rank)
    for (const DeviceRange& range : plan.stages[rank].devices) owned.push_back({range, rank});
  std::ranges::sort(owned, {}, [](const Owned& of) { return of.range.first; });
  for (std::size_t i = 1; i < owned.size(); ++i)
    if (owned[i].range.first < owned[i - 1].range.first + owned[i - 1].range.count)
      findings.add(fmt::format("two ranks are on device {}, of pipeline rank {} and of {}",
                               owned[i].range.first, owned[i - 1].rank, owned[i].rank));
}

bool is_share(double value) { return value > 0 && value <= 1; }

void check_kernels(const GpuKernels& kernels, Findings& findings) {
  bool good = is_share(kernels.sustained) && is_share(kernels.fp8_efficiency) &&
              kernels.random_numbers >= 0 && kernels.tail_waves >= 0;
  for (const FlashRate& rate : kernels.flash)
    if (rate != FlashRate{})
      good = good && is_share(rate.forward) && is_share(rate.backward) && is_share(rate.narrow) &&
             rate.masked_keys >= 0;
  for (const double power : kernels.power.flash) good = good && is_share(power);
  good = good && is_share(kernels.power.other) && is_share(kernels.power.fitted);
  if (!good) findings.add("the GPU's coefficients of kernels are no shares and rates");
}

bool are_all_nodes_in_groups(const Cluster& cluster) {
  std::int64_t left = cluster.nodes;
  for (const NodeGroup& group : cluster.node_groups) {
    if (group.nodes < 1 || group.nodes > left) return false;
    left -= group.nodes;
  }
  return left == 0 || cluster.node_groups.empty();
}

void check_gpu(const Gpu& gpu, Findings& findings) {
  if (gpu.communication_sms < 0 || (gpu.communication_sms > 0 && gpu.communication_sms >= gpu.sm_count))
    findings.add(fmt::format("communication occupies {} of a GPU's {} multiprocessors", gpu.communication_sms,
                             gpu.sm_count));
  check_kernels(gpu.kernels, findings);
  check_measured(gpu.measured, findings);
}

}  // namespace

void check_cluster(const Plan& plan, Findings& findings) {
  if (plan.stages.empty()) return;  // nothing runs
  const Cluster& cluster = plan.cluster;
  if (!is_within(cluster.nodes, limits::nodes) || !is_within(cluster.gpus_per_node, limits::gpus_per_node) ||
      cluster.nodes * cluster.gpus_per_node > limits::world)
    return findings.add(fmt::format("a cluster of {} nodes x {} GPUs is beyond simrun's limits",
                                    cluster.nodes, cluster.gpus_per_node));
  if (cluster.nics_per_node < 0 || cluster.nics_per_node > limits::nics_per_node.most)
    return findings.add(fmt::format("a node with {} GPUs has {} NICs, not from 1 to {}",
                                    cluster.gpus_per_node, cluster.nics_per_node,
                                    limits::nics_per_node.most));
  if (!are_all_nodes_in_groups(cluster))
    return findings.add(fmt::format("groups of nodes do not add up to the cluster's {}", cluster.nodes));
  check_gpu(cluster.gpu, findings);
  for (const NodeGroup& group : cluster.node_groups) check_gpu(group.gpu, findings);
  if (cluster.gpus_per_node > 1) {
    check_link("intra_node", cluster.intra_node, findings);
    for (const NodeGroup& group : cluster.node_groups)
      check_link(("intra_node of " + group.name).c_str(), group.intra_node, findings);
  }
  if (cluster.nodes > 1) check_link("inter_node", cluster.inter_node, findings);
  check_fabric(cluster, findings);
  check_network(cluster, findings);
  check_measured_exchanges(cluster, findings);
  check_imperfections(cluster, findings);
  check_devices(plan, findings);
  check_distinct_devices(plan, findings);
}

}  // namespace simrun
