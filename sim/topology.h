#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "configs/job.h"

namespace simrun {

class LinkFaults;

using LinkIndex = std::uint32_t;

// Directed links in the order that bytes pass them, and the time of the first byte.
struct Route {
  std::array<LinkIndex, 4> link{};
  std::uint8_t count = 0;
  double latency_s = 0;
  std::span<const LinkIndex> links() const { return {link.data(), count}; }
};

// The cluster's links, each direction one link with its own bandwidth, and the route between any two GPUs.
// Device d is GPU d % gpus_per_node of node d / gpus_per_node. Values only: nothing is stored per link.
//
//   inside a node    GPU's NVLink out (tx) and the other's in (rx); the switch itself does not block.
//                    Bandwidth and latency of Cluster::intra_node
//   between nodes    NIC tx, [leaf to spine up, spine to leaf down,] NIC rx. A leaf does not block. The
//                    spine is chosen by a hash of the two NICs, as ECMP does: one route per pair, back over
//                    the same switches. Same leaf: no spine
//
// Every bandwidth is LinkClass::bandwidth x efficiency. A leaf that serves fewer nodes than nodes_per_leaf,
// the last one, has the uplinks of a full one. nics_per_node 0 means one per GPU.
//
// Numbers: all NVLink ports by device, all NIC ports by node and NIC, then leaf-spine links by leaf and
// spine; of each two directions tx or up is the even one. The loader and lint() keep them far below 2^32
// (limits::leaf_links).
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
  std::int64_t node_of(std::int64_t device) const { return device / gpus_; }
  // What was measured inside a node in place of what its links say.
  const MeasuredExchanges& measured() const { return cluster_.measured; }
  // Of two different devices of the cluster. Throws std::invalid_argument, which names the links, if all ways
  // have failed.
  Route route(std::int64_t from, std::int64_t to) const;

  double nominal_bandwidth(LinkIndex link) const;
  bool can_limit_nominally(LinkIndex link) const;
  // `attempt`: how many ways to pass over of those that the fabric has between the same two ports.
  Route nominal_route(std::int64_t from, std::int64_t to, std::int64_t attempt = 0) const;
  // Whether imperfections make links, or ways between nodes, unequal.
  bool has_faults() const { return faults_ != nullptr; }

 private:
  struct WithoutFaults {};
  Topology(const Cluster& cluster, WithoutFaults);
  std::int64_t nic_of(std::int64_t device) const;                     // counted over all nodes
  std::int64_t leaf_of(std::int64_t nic) const;                       // rail by rail
  LinkIndex spine_link(std::int64_t leaf, std::int64_t spine) const;  // its direction up

  Cluster cluster_;               // without its Gpu
  std::int64_t gpus_ = 1;         // per node
  std::int64_t nics_ = 1;         // per node
  std::int64_t rail_leaves_ = 0;  // leaves of one rail, or all of a fabric without rails; 0: non-blocking
  LinkIndex first_nic_link_ = 0;
  LinkIndex first_spine_link_ = 0;
  LinkIndex links_ = 0;
  std::shared_ptr<const LinkFaults> faults_;  // null: none
};

}  // namespace simrun
