#include "sim/topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <utility>

namespace simrun {

namespace {

double effective(const LinkClass& link) { return link.bandwidth * link.efficiency; }

// Both directions of a pair of NICs hash alike. The mixing steps are splitmix64's (Steele et al. 2014).
std::uint64_t pair_hash(std::int64_t a, std::int64_t b) {
  const auto [low, high] = std::minmax(a, b);
  std::uint64_t x = (static_cast<std::uint64_t>(low) << 32) ^ static_cast<std::uint64_t>(high);
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

LinkIndex link_at(std::int64_t number) {
  assert(std::in_range<LinkIndex>(number) && "a cluster with more links than limits::leaf_links allows");
  return static_cast<LinkIndex>(number);
}

}  // namespace

Topology::Topology(const Cluster& cluster, WithoutFaults)
    : gpus_(std::max<std::int64_t>(cluster.gpus_per_node, 1)),
      nics_(cluster.nics_per_node > 0 ? std::min(cluster.nics_per_node, gpus_) : gpus_) {
  cluster_.nodes = std::max<std::int64_t>(cluster.nodes, 1);
  cluster_.intra_node = cluster.intra_node;
  cluster_.inter_node = cluster.inter_node;
  cluster_.fabric = cluster.fabric;
  cluster_.measured = cluster.measured;
  first_nic_link_ = link_at(2 * cluster_.nodes * gpus_);
  first_spine_link_ = links_ = link_at(2 * cluster_.nodes * (gpus_ + nics_));
  if (cluster_.fabric.topology == FabricTopology::non_blocking) return;
  Fabric& fabric = cluster_.fabric;
  fabric.nodes_per_leaf = std::max<std::int64_t>(fabric.nodes_per_leaf, 1);
  fabric.spines = std::max<std::int64_t>(fabric.spines, 1);
  rail_leaves_ = (cluster_.nodes - 1) / fabric.nodes_per_leaf + 1;
  const std::int64_t leaves = rail_leaves_ * (fabric.rail_optimized ? nics_ : 1);
  links_ = link_at(first_spine_link_ + 2 * leaves * fabric.spines);
}

std::int64_t Topology::nic_of(std::int64_t device) const {
  return device / gpus_ * nics_ + device % gpus_ * nics_ / gpus_;
}

std::int64_t Topology::leaf_of(std::int64_t nic) const {
  const std::int64_t leaf = nic / nics_ / cluster_.fabric.nodes_per_leaf;
  return cluster_.fabric.rail_optimized ? nic % nics_ * rail_leaves_ + leaf : leaf;
}

LinkIndex Topology::spine_link(std::int64_t leaf, std::int64_t spine) const {
  return first_spine_link_ + static_cast<LinkIndex>(2 * (leaf * cluster_.fabric.spines + spine));
}

double Topology::nominal_bandwidth(LinkIndex link) const {
  assert(link < links_ && "no such link");
  if (link < first_nic_link_) return effective(cluster_.intra_node);
  if (link < first_spine_link_) return effective(cluster_.inter_node);
  const Fabric& fabric = cluster_.fabric;
  const auto ports = static_cast<double>(fabric.nodes_per_leaf * (fabric.rail_optimized ? 1 : nics_));
  return ports * effective(cluster_.inter_node) / fabric.oversubscription /
         static_cast<double>(fabric.spines);
}

bool Topology::can_limit_nominally(LinkIndex link) const {
  return link < first_spine_link_ || cluster_.fabric.spines > 1 || cluster_.fabric.oversubscription > 1;
}

std::string Topology::name(LinkIndex link) const {
  assert(link < links_ && "no such link");
  const bool back = is_inbound(link);
  if (link < first_nic_link_) {
    const std::int64_t device = link / 2;
    return fmt::format("node{}.gpu{}.nvlink_{}", device / gpus_, device % gpus_, back ? "rx" : "tx");
  }
  if (link < first_spine_link_) {
    const std::int64_t nic = (link - first_nic_link_) / 2;
    return fmt::format("node{}.nic{}.{}", nic / nics_, nic % nics_, back ? "rx" : "tx");
  }
  const std::int64_t number = (link - first_spine_link_) / 2;
  const std::int64_t leaf = number / cluster_.fabric.spines, spine = number % cluster_.fabric.spines;
  const std::string rail =
      cluster_.fabric.rail_optimized ? fmt::format("rail{}.", leaf / rail_leaves_) : std::string();
  return fmt::format("{}leaf{}.spine{}.{}", rail, leaf % rail_leaves_, spine, back ? "down" : "up");
}

Route Topology::nominal_route(std::int64_t from, std::int64_t to, std::int64_t attempt) const {
  assert(from != to && from >= 0 && to >= 0 && std::max(from, to) < cluster_.nodes * gpus_ &&
         "a route between two GPUs of the cluster");
  if (node_of(from) == node_of(to))
    return {{static_cast<LinkIndex>(2 * from), static_cast<LinkIndex>(2 * to + 1)},
            2,
            cluster_.intra_node.latency_s};
  const std::int64_t sender = nic_of(from), receiver = nic_of(to);
  const LinkIndex tx = first_nic_link_ + static_cast<LinkIndex>(2 * sender);
  const LinkIndex rx = first_nic_link_ + static_cast<LinkIndex>(2 * receiver + 1);
  const Fabric& fabric = cluster_.fabric;
  if (rail_leaves_ == 0 || leaf_of(sender) == leaf_of(receiver))
    return {{tx, rx}, 2, cluster_.inter_node.latency_s};
  const auto spines = static_cast<std::uint64_t>(fabric.spines);
  const auto spine =
      static_cast<std::int64_t>((pair_hash(sender, receiver) + static_cast<std::uint64_t>(attempt)) % spines);
  return {{tx, spine_link(leaf_of(sender), spine), spine_link(leaf_of(receiver), spine) + 1, rx},
          4,
          cluster_.inter_node.latency_s + fabric.spine_latency_s};
}

}  // namespace simrun
