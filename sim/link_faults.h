#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "configs/cluster_config.h"
#include "sim/topology.h"

namespace simrun {

// What a cluster's imperfections leave of the links and routes of its topology.
//
//   degraded    bandwidth x share, of all entries that match; added latencies add up over a route's links
//   background  its rate is taken off the bandwidth of every link that it crosses: it gives way to nobody.
//               Traffic from node to node goes from each GPU to the GPU with the same number. It takes the
//               routes that are left, as the job's own traffic does
//   failed      a route with such a link takes another way of the fabric between the same two ports; else
//               the ports of other GPUs of the two nodes (which have other NICs, as far as there are any):
//               those as many places further in both nodes, in one of them, in turn. The way between a GPU
//               and another's NIC is taken to cost nothing. Links inside a node or an NVLink domain, and of a
//               torus, have no other way
class LinkFaults {
 public:
  // As Topology::Topology. The topology has no faults yet.
  LinkFaults(const Topology& nominal, const Cluster& cluster);

  bool has(LinkIndex link) const { return find(link) != nullptr; }
  double bandwidth(const Topology& topology, LinkIndex link) const;
  Route route(const Topology& topology, std::int64_t from, std::int64_t to) const;

 private:
  struct Fault {
    LinkIndex link = 0;
    double share = 1;  // 0: failed
    double taken = 0;  // bytes/s
    double added_latency_s = 0;
  };
  const Fault* find(LinkIndex link) const;
  void add_degraded(const Topology& topology, const Imperfections& imperfections);
  void refuse_inside_nodes(const Topology& topology) const;
  void add_background(const Topology& topology, const Cluster& cluster, const BackgroundTraffic& traffic);
  void take(const Topology& topology, const BackgroundTraffic& traffic, const std::vector<Fault>& taken);
  void merge(std::vector<Fault> more);
  bool is_open(const Route& route) const;
  // Between GPUs that talk over NICs.
  std::optional<Route> detour(const Topology& topology, std::int64_t from, std::int64_t to) const;
  Route with_latency(Route route) const;

  std::int64_t gpus_ = 1;      // per node
  std::int64_t ways_ = 1;      // attempts that a fabric may need
  std::vector<Fault> faults_;  // by link
};

}  // namespace simrun
