#pragma once

#include <cstdint>
#include <vector>

#include "configs/link_class.h"

// How the GPUs and NICs of a node are connected, the same in every node.
namespace simrun {

// nvswitch: every GPU has one port (Cluster::intra_node) on a switch that does not block. nvlink_mesh: links
// between pairs of GPUs. pcie: no links but those of the PCIe tree.
enum class IntraNodeTopology : std::uint8_t { nvswitch, nvlink_mesh, pcie };

// `links` NVLinks between two GPUs of a node, first < second.
struct NvlinkPair {
  std::int64_t first = 0, second = 0, links = 0;
  bool operator==(const NvlinkPair&) const = default;
};

// GPUs and NICs hang on PCIe switches, switches on CPU sockets, every two sockets are linked (QPI, UPI,
// Infinity Fabric). Empty: PCIe carries whatever GPUs and NICs send, and is on no route.
struct PcieTree {
  LinkClass link = {};                       // of a GPU, a NIC or a switch to what it hangs on
  LinkClass socket_link = {};                // between two sockets, latency added to `link`'s
  std::vector<std::int64_t> gpu_switches;    // by GPU of the node
  std::vector<std::int64_t> nic_switches;    // by NIC of the node
  std::vector<std::int64_t> switch_sockets;  // by switch
  bool empty() const { return gpu_switches.empty(); }
  bool operator==(const PcieTree&) const = default;
};

struct NodeWiring {
  IntraNodeTopology topology = IntraNodeTopology::nvswitch;
  // Of a mesh. One link has intra_node's bandwidth over the most links that a GPU has.
  std::vector<NvlinkPair> nvlinks = {};
  // GPUs without a link between them: over a GPU that has links with both, as NCCL does (NVB); else over
  // PCIe. Those that have no such neighbour go over PCIe in any case.
  bool relay = true;
  std::int64_t nodes_per_domain = 1;  // nodes whose GPUs are on one NVLink switch (GB200 NVL72: 18)
  PcieTree pcie = {};
  // NICs read and write GPU memory. Otherwise what goes to another node passes the host's memory, and so
  // every link between GPU and socket, and between socket and NIC.
  bool gpu_direct = true;
  bool operator==(const NodeWiring&) const = default;
};

}  // namespace simrun
