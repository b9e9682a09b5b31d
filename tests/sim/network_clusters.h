#pragma once

#include <string>
#include <vector>

#include "configs/cluster_config.h"
#include "sim/topology.h"

namespace simrun::test {

// 100 GB/s and 1 us within a node, 10 GB/s and 5 us per NIC; a NIC per GPU, and no switches between nodes.
Cluster plain_cluster(std::int64_t nodes, std::int64_t gpus);

// The hybrid cube mesh of a DGX-1 with V100 (GPU i is linked with the GPUs of its half of the box and with
// GPU i +- 4, six links each), as `nvidia-smi topo -m` prints it; links of 25 GB/s.
Cluster cube_mesh_cluster();

// Two switches with two GPUs and a NIC on each of two sockets: 10 GB/s and 2 us of PCIe, 8 GB/s and 1 us
// between sockets.
PcieTree two_sockets();

// Small clusters of every kind of node and fabric, with a name each.
struct NamedCluster {
  std::string name;
  Cluster cluster;
};
std::vector<NamedCluster> every_network();

std::vector<std::string> names_of(const Topology& topology, const Route& route);

// What a link joins, by its name: "gpu3", "node0.nic1", "rail0.leaf2".
struct LinkEnds {
  std::string from, to;
};
LinkEnds ends_of(const Topology& topology, const Cluster& cluster, LinkIndex link);

}  // namespace simrun::test
