#include "sim/topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <limits>
#include <utility>

namespace simrun {

namespace {

double effective(const LinkClass& link) { return link.bandwidth * link.efficiency; }

LinkIndex link_at(std::int64_t number) {
  assert(std::in_range<LinkIndex>(number) && "a cluster with more links than limits::leaf_links allows");
  return static_cast<LinkIndex>(number);
}

std::int64_t at_least_1(std::int64_t number) { return std::max<std::int64_t>(number, 1); }

std::int64_t ports_of(const Cluster& cluster) {
  const std::int64_t gpus = at_least_1(cluster.gpus_per_node);
  return cluster.nics_per_node > 0 ? std::min(cluster.nics_per_node, gpus) : gpus;
}

// The cluster as a group's nodes see it.
Cluster with_links(Cluster cluster, const LinkClass& intra_node) {
  cluster.intra_node = intra_node;
  return cluster;
}

}  // namespace

Topology::Topology(const Cluster& cluster, WithoutFaults)
    : gpus_(at_least_1(cluster.gpus_per_node)),
      nics_(ports_of(cluster)),
      nics_of_port_(at_least_1(cluster.nics_per_node / nics_)),
      nodes_per_domain_(at_least_1(cluster.wiring.nodes_per_domain)),
      pxn_(cluster.fabric.pxn),
      rails_(cluster.fabric.rail_optimized),
      port_bandwidth_(effective(cluster.inter_node) * static_cast<double>(nics_of_port_)),
      nic_latency_s_(cluster.inter_node.latency_s),
      flow_bandwidth_(cluster.inter_node.flow_bandwidth > 0 ? cluster.inter_node.flow_bandwidth
                                                            : std::numeric_limits<double>::infinity()),
      intra_latency_s_(cluster.intra_node.latency_s),
      node_(cluster, nics_),
      measured_(cluster.measured) {
  const std::int64_t nodes = at_least_1(cluster.nodes);
  devices_ = nodes * gpus_;
  add_groups(cluster);
  if (cluster.fabric.topology == FabricTopology::torus) {
    const TorusLinks& torus = fabric_.emplace<TorusLinks>(cluster);
    links_ = link_at(2 * torus.pairs());
    return;
  }
  if (cluster.fabric.topology != FabricTopology::non_blocking)
    planes_ = fabric_.emplace<SwitchFabric>(cluster, nics_, port_bandwidth_).planes();
  first_nic_link_ = link_at(2 * nodes * node_.pairs());
  first_fabric_link_ = link_at(first_nic_link_ + 2 * nodes * nics_ * planes_);
  links_ = link_at(first_fabric_link_ + (switches() == nullptr ? 0 : 2 * switches()->pairs()));
}

void Topology::add_groups(const Cluster& cluster) {
  std::vector<LinkClass> kinds{cluster.intra_node};
  std::int64_t end = 0;
  for (const NodeGroup& group : cluster.node_groups) {
    const std::int64_t first = end;
    end += group.nodes;
    const auto known = std::find(kinds.begin(), kinds.end(), group.intra_node);
    const auto kind = static_cast<std::size_t>(known - kinds.begin());
    if (known == kinds.end()) kinds.push_back(group.intra_node);
    if (kind > 0)
      others_.push_back({first, end, kind, NodeLinks(with_links(cluster, group.intra_node), nics_)});
  }
}

NicPlace Topology::nic_place(std::int64_t device) const {
  const std::int64_t nic = nic_of(device), node = node_of(device);
  return {nic, node, rail_of(device), rails_ ? node : nic};
}

double Topology::nominal_bandwidth(LinkIndex link) const {
  assert(link < links_ && "no such link");
  if (const auto* torus = std::get_if<TorusLinks>(&fabric_)) return torus->bandwidth();
  if (link < first_nic_link_) return links_in(link / 2 / node_.pairs()).bandwidth(link / 2 % node_.pairs());
  if (link < first_fabric_link_) return port_bandwidth_ / static_cast<double>(planes_);
  return switches()->bandwidth((link - first_fabric_link_) / 2);
}

bool Topology::can_limit_nominally(LinkIndex link) const {
  return switches() == nullptr || link < first_fabric_link_ ||
         switches()->can_limit((link - first_fabric_link_) / 2);
}

// "nic3.tx"; of several that are one port "nic12-15.tx"; on one of several planes "nic3.plane1.tx".
std::string Topology::nic_name(std::int64_t pair, bool back) const {
  const std::int64_t first = pair / planes_ % nics_ * nics_of_port_;
  const std::string last = nics_of_port_ > 1 ? fmt::format("-{}", first + nics_of_port_ - 1) : std::string();
  const std::string plane = planes_ > 1 ? fmt::format("plane{}.", pair % planes_) : std::string();
  return fmt::format("nic{}{}.{}{}", first, last, plane, back ? "rx" : "tx");
}

std::string Topology::name(LinkIndex link) const {
  assert(link < links_ && "no such link");
  const bool back = is_inbound(link);
  if (const auto* torus = std::get_if<TorusLinks>(&fabric_)) return torus->name(link / 2, back);
  if (link < first_nic_link_)
    return fmt::format("node{}.{}", link / 2 / node_.pairs(), node_.name(link / 2 % node_.pairs(), back));
  if (link >= first_fabric_link_) return switches()->name((link - first_fabric_link_) / 2, back);
  const std::int64_t pair = (link - first_nic_link_) / 2;
  return fmt::format("node{}.{}", pair / planes_ / nics_, nic_name(pair, back));
}

// The GPU of a device's node that has a rail's NIC, of several one by the device's own number.
std::int64_t Topology::proxy_of(std::int64_t device, std::int64_t rail) const {
  const std::int64_t first = device / gpus_ * gpus_;
  for (std::int64_t step = 0; step < gpus_; ++step) {
    const std::int64_t gpu = (rail * gpus_ / nics_ + device % (gpus_ / nics_) + step) % gpus_;
    if (node_.port_of(gpu) == rail) return first + gpu;
  }
  return device;
}

void Topology::add_port(std::int64_t nic, std::int64_t plane, bool back, Route& route) const {
  route.add(first_nic_link_ + static_cast<LinkIndex>(2 * (nic * planes_ + plane) + (back ? 1 : 0)));
}

Route Topology::nominal_route(std::int64_t from, std::int64_t to, std::int64_t attempt) const {
  assert(from != to && from >= 0 && to >= 0 && std::max(from, to) < devices_ &&
         "a route between two GPUs of the cluster");
  Route route;
  if (const auto* torus = std::get_if<TorusLinks>(&fabric_)) {
    torus->cross(from, to, route);
    return route;
  }
  if (node_of(from) == node_of(to)) {
    links_in(node_of(from)).connect(from % gpus_, to % gpus_, node_link(from), route);
    return route;
  }
  if (domain_of(from) == domain_of(to)) {
    route.add(node_link(from) + static_cast<LinkIndex>(2 * (from % gpus_)));
    route.add(node_link(to) + static_cast<LinkIndex>(2 * (to % gpus_) + 1));
    route.latency_s = intra_latency_s_;
    return route;
  }
  if (pxn_ && rail_of(from) != rail_of(to)) {
    const std::int64_t proxy = proxy_of(from, rail_of(to));
    links_in(node_of(from)).connect(from % gpus_, proxy % gpus_, node_link(from), route);
    from = proxy;
  }
  const NicPlace sender = nic_place(from), receiver = nic_place(to);
  Route across;
  across.latency_s = nic_latency_s_;
  const std::int64_t plane =
      switches() == nullptr ? 0 : switches()->cross(sender, receiver, first_fabric_link_, across, attempt);
  route.latency_s += across.latency_s;
  node_.leave(from % gpus_, node_link(from), route);
  add_port(sender.number, plane, false, route);
  for (const LinkIndex link : across.links()) route.add(link);
  add_port(receiver.number, plane, true, route);
  node_.enter(to % gpus_, node_link(to), route);
  return route;
}

}  // namespace simrun
