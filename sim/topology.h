#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "configs/job.h"
#include "sim/node_links.h"
#include "sim/route.h"
#include "sim/switch_fabric.h"
#include "sim/torus_links.h"

namespace simrun {

class LinkFaults;

// The cluster's links, each direction one link with its own bandwidth, and the route between any two GPUs.
// Device d is GPU d % gpus_per_node of node d / gpus_per_node. Values only: nothing is stored per link, and a
// route takes constant time.
//
//   inside a node    over an NVSwitch the GPU's NVLink out (tx) and the other's in (rx); the switch itself
//                    does not block. Over a mesh of NVLinks the link between the two, or two by a neighbour;
//                    else through the PCIe tree (NodeLinks). Latency of Cluster::intra_node, or of the tree.
//                    Nodes of one NVLink domain are like one node
//   between nodes    [the PCIe tree to] NIC tx, the links between switches (SwitchFabric), NIC rx [and the
//                    PCIe tree]. One route per pair. With PXN what goes to another rail first goes over
//                    NVLink to the GPU whose NIC is on it
//   torus            links from GPU to GPU only (TorusLinks)
//
// Every bandwidth is LinkClass::bandwidth x efficiency; flow_bandwidth is as stated. A leaf that serves fewer
// nodes than nodes_per_leaf, the last one, has the uplinks of a full one. nics_per_node 0 means one per GPU;
// where a GPU has several they are one port, since NCCL spreads every message over them.
//
// Numbers: the links of all nodes, all NIC ports by node, NIC and plane, then the fabric's; of each two
// directions tx or up is the even one. The loader and lint() keep them far below 2^32 (limits::leaf_links).
//
// Cluster::imperfections change bandwidths, latencies and routes (sim/link_faults.h); nominal_...() are those
// without any.
class Topology {
 public:
  // Throws std::invalid_argument, beginning with the key (imperfections.links.NAME), for links that do not
  // exist and traffic that leaves nothing.
  explicit Topology(const Cluster& cluster);

  LinkIndex links() const { return links_; }
  double bandwidth(LinkIndex link) const;  // bytes/s
  // Whether it may ever be what limits a flow. A leaf's link to an only spine, not oversubscribed, carries
  // all that its NICs can send or receive.
  bool can_limit(LinkIndex link) const;
  bool is_inbound(LinkIndex link) const { return link % 2 != 0; }  // rx, or down from a spine
  std::string name(LinkIndex link) const;  // "node0.gpu5.nvlink_tx", "node0.nic3.rx", "rail3.leaf0.spine1.up"
  std::int64_t gpus_per_node() const { return gpus_; }
  std::int64_t node_of(std::int64_t device) const { return device / gpus_; }
  // GPUs of one domain reach each other over NVLink: those of a node, or of several.
  std::int64_t domain_of(std::int64_t device) const { return device / gpus_ / nodes_per_domain_; }
  // The NIC that a device sends over, counted over all nodes, and its number within the node. Where a GPU has
  // several they count as one. Not on a torus.
  std::int64_t nic_of(std::int64_t device) const {
    return device / gpus_ * nics_ + node_.port_of(device % gpus_);
  }
  std::int64_t rail_of(std::int64_t device) const { return node_.port_of(device % gpus_); }
  // Which of the cluster's kinds of links inside a node a device's node has, from 0.
  std::size_t link_kind_of(std::int64_t device) const { return link_kind_of_node(device / gpus_); }
  // Within a domain every GPU has a port of its own into one switch: all pairs are alike, and routes share
  // links only at their ends.
  bool is_switched() const { return node_.is_switched() && !std::holds_alternative<TorusLinks>(fabric_); }
  // The switch fabric, or null.
  const SwitchFabric* switches() const { return std::get_if<SwitchFabric>(&fabric_); }
  // What was measured inside a node in place of what its links say.
  const MeasuredExchanges& measured() const { return measured_; }
  // Of two different devices of the cluster. Throws std::invalid_argument, which names the links, if all ways
  // have failed.
  Route route(std::int64_t from, std::int64_t to) const;

  // Links between nodes: NICs and what they are connected to, or all links of a torus.
  bool is_network(LinkIndex link) const { return link >= first_nic_link_; }
  // Bytes/s that one flow between nodes gets at most, whatever its links would give; infinite without a
  // limit.
  double flow_bandwidth() const { return flow_bandwidth_; }

  double nominal_bandwidth(LinkIndex link) const;
  bool can_limit_nominally(LinkIndex link) const;
  // `attempt`: how many ways to pass over of those that the fabric has between the same two ports.
  Route nominal_route(std::int64_t from, std::int64_t to, std::int64_t attempt = 0) const;
  // Whether GPUs of two domains reach each other over NICs, of whichever GPU of their nodes.
  bool has_nics() const { return !std::holds_alternative<TorusLinks>(fabric_); }
  // Whether imperfections make links, or ways between nodes, unequal.
  bool has_faults() const { return faults_ != nullptr; }

 private:
  struct WithoutFaults {};
  Topology(const Cluster& cluster, WithoutFaults);
  LinkIndex node_link(std::int64_t device) const {  // the first of its node
    return static_cast<LinkIndex>(device / gpus_ * 2 * node_.pairs());
  }
  struct OtherNodes {                 // of a group whose links are unlike those of the first
    std::int64_t first = 0, end = 0;  // node numbers
    std::size_t kind = 0;
    NodeLinks links;
  };
  std::size_t link_kind_of_node(std::int64_t node) const {
    for (const OtherNodes& other : others_)
      if (node >= other.first && node < other.end) return other.kind;
    return 0;
  }
  const NodeLinks& links_in(std::int64_t node) const {
    for (const OtherNodes& other : others_)
      if (node >= other.first && node < other.end) return other.links;
    return node_;
  }
  void add_groups(const Cluster& cluster);
  NicPlace nic_place(std::int64_t device) const;
  std::int64_t proxy_of(std::int64_t device, std::int64_t rail) const;
  std::string nic_name(std::int64_t pair, bool back) const;
  void add_port(std::int64_t nic, std::int64_t plane, bool back, Route& route) const;

  std::int64_t devices_ = 1;
  std::int64_t gpus_ = 1;  // per node
  std::int64_t nics_ = 1;  // NIC ports per node
  std::int64_t nics_of_port_ = 1;
  std::int64_t nodes_per_domain_ = 1;
  bool pxn_ = false, rails_ = false;
  double port_bandwidth_ = 0, nic_latency_s_ = 0;
  double flow_bandwidth_ = 0;
  double intra_latency_s_ = 0;
  NodeLinks node_;  // of all nodes but those of others_; which link is which is the same in all
  std::vector<OtherNodes> others_;
  std::variant<std::monostate, SwitchFabric, TorusLinks> fabric_;  // none: non-blocking
  std::int64_t planes_ = 1;
  MeasuredExchanges measured_;
  LinkIndex first_nic_link_ = 0;
  LinkIndex first_fabric_link_ = 0;
  LinkIndex links_ = 0;
  std::shared_ptr<const LinkFaults> faults_;  // null: none
};

}  // namespace simrun
