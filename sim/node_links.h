#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "configs/cluster_config.h"
#include "sim/route.h"

namespace simrun {

// The links inside a node and the ways over them, the same in every node. Links come in pairs, the even one
// away from the GPU, the NIC, the lower switch or the lower of two GPUs or sockets.
//
// Numbers within a node: 2 x pair + direction; first the NVLinks (by GPU on a switch, by pair of a mesh),
// then those of the PCIe tree: by GPU, by NIC port, by switch, by pair of sockets.
class NodeLinks {
 public:
  // `ports` NICs or groups of NICs, see Topology.
  NodeLinks(const Cluster& cluster, std::int64_t ports);

  std::int64_t pairs() const { return socket_pair_ + sockets_ * (sockets_ - 1) / 2; }
  double bandwidth(std::int64_t pair) const;  // bytes/s and direction
  std::string name(std::int64_t pair, bool back) const;
  std::int64_t port_of(std::int64_t gpu) const { return port_of_[static_cast<std::size_t>(gpu)]; }
  // Every two GPUs of a node are equally far apart, and no other GPU's traffic is on the way.
  bool is_switched() const { return topology_ == IntraNodeTopology::nvswitch; }

  // Each adds links and latency of a part of a route. `first`: the node's first link.
  void connect(std::int64_t from, std::int64_t to, LinkIndex first, Route& route) const;  // two GPUs
  void leave(std::int64_t gpu, LinkIndex first, Route& route) const;  // from a GPU to its port
  void enter(std::int64_t gpu, LinkIndex first, Route& route) const;

 private:
  struct Place {  // of a GPU or a port in the PCIe tree
    std::int64_t pair = 0, on_switch = 0;
  };
  using Way = std::vector<std::uint32_t>;  // numbers within a node
  struct Table {                           // of ways, by number
    std::vector<std::uint32_t> start{0}, links;
    std::vector<double> latency_s;
    void add(const Way& way, double seconds);
    void append(std::size_t number, LinkIndex first, Route& route) const;
  };
  void number_pairs(const Cluster& cluster, std::int64_t ports);
  void choose_ports(const PcieTree& pcie, std::int64_t ports);
  void tabulate(const Cluster& cluster);
  std::int64_t mesh_pair(std::int64_t a, std::int64_t b) const;  // -1 where there is none
  std::int64_t relay_between(std::int64_t a, std::int64_t b) const;
  std::uint32_t mesh_link(std::int64_t from, std::int64_t to) const;
  Place gpu_place(std::int64_t gpu) const;
  Place port_place(std::int64_t port) const;
  std::int64_t socket_pair(std::int64_t a, std::int64_t b) const;
  Way pcie_way(Place from, Place to, bool through_host) const;
  double pcie_latency(Place from, Place to, bool through_host) const;
  void add_gpu_way(std::int64_t from, std::int64_t to);

  IntraNodeTopology topology_;
  std::int64_t gpus_;
  LinkClass nvlink_, pcie_link_, socket_link_;
  std::vector<NvlinkPair> mesh_;
  bool relay_ = true;
  PcieTree pcie_;
  std::int64_t most_links_ = 1;  // that a GPU of the mesh has
  std::int64_t sockets_ = 0;
  std::int64_t gpu_pair_ = 0, port_pair_ = 0, switch_pair_ = 0, socket_pair_ = 0;  // the first of each
  std::vector<std::int64_t> port_of_;
  Table between_;        // by from x gpus + to; empty where is_switched()
  Table leave_, enter_;  // by GPU; empty without a PCIe tree
};

}  // namespace simrun
