#pragma once

#include <cstdint>
#include <string>

#include "configs/cluster_config.h"
#include "sim/path_choice.h"
#include "sim/route.h"

namespace simrun {

// The links between switches of a leaf_spine, fat_tree or dragonfly_plus fabric, in pairs, the even one up
// (or from the lower pod). With `routing: spray` parallel switches are one: each link is the sum of theirs.
//
// Numbers: plane by plane; in a plane by leaf and spine, then by pod, spine and core, or by spine and pair of
// pods. Leaves count rail by rail.
class SwitchFabric {
 public:
  // `rails` NIC ports per node, of `port_bandwidth` bytes/s on all planes together.
  SwitchFabric(const Cluster& cluster, std::int64_t rails, double port_bandwidth);

  std::int64_t planes() const { return count_.planes; }
  std::int64_t pairs() const { return count_.planes * plane_pairs_; }
  double bandwidth(std::int64_t pair) const;
  // A link to an only switch above, not oversubscribed, carries all that may come.
  bool can_limit(std::int64_t pair) const;
  std::string name(std::int64_t pair, bool back) const;  // "rail3.leaf0.spine1.up", "pod0.spine1.core3.down"
  // "leaf0", the switch that a port of this node and rail is on.
  std::int64_t leaf_of(std::int64_t node, std::int64_t rail) const;
  std::int64_t pod_of(std::int64_t node) const;
  std::int64_t nodes_per_leaf() const { return fabric_.nodes_per_leaf; }
  std::int64_t leaves_per_pod() const { return fabric_.leaves_per_pod; }  // of one rail
  std::int64_t pods() const { return pods_; }
  bool has_rails() const { return fabric_.rail_optimized; }
  // Bytes/s up from the leaves of nodes_per_leaf nodes, all rails and planes together.
  double leaf_group_uplinks() const;
  // Bytes/s from a pod to `others` other pods.
  double pod_uplinks(std::int64_t others) const;

  // Adds the links between two NICs and the latency of the switches above the leaves; returns the plane.
  // `first`: the fabric's first link.
  std::int64_t cross(const NicPlace& from, const NicPlace& to, LinkIndex first, Route& route) const;

 private:
  bool is_core(std::int64_t pair) const { return pair % plane_pairs_ >= leaf_pairs_; }
  std::int64_t leaf_pair(std::int64_t plane, std::int64_t leaf, std::int64_t spine) const;
  std::int64_t core_pair(const ChosenPath& path, std::int64_t pod) const;
  std::int64_t pod_pair(const ChosenPath& path, std::int64_t a, std::int64_t b) const;
  void cross_pods(const ChosenPath& path, std::int64_t from, std::int64_t to, LinkIndex first,
                  Route& route) const;
  std::string core_name(std::int64_t number, bool back) const;
  double leaf_link_bandwidth() const;

  Fabric fabric_;
  std::int64_t rails_;
  double port_bandwidth_;
  PathCount count_;
  std::int64_t rail_leaves_ = 1;  // leaves of one rail, or all of a fabric without rails
  std::int64_t pods_ = 1;
  std::int64_t leaf_pairs_ = 0, plane_pairs_ = 0;  // of a plane
};

}  // namespace simrun
