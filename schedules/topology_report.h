#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace simrun {

// What simrun understood of a cluster's links (sim/describe_topology.h fills it).
struct TopologyReport {
  struct Links {       // that are named alike and have one rate
    std::string name;  // "node*.gpu*.nvlink_tx"
    std::int64_t count = 0;
    double bandwidth = 0;  // bytes/s of each
  };
  struct Routes {            // between GPUs that are equally far apart
    std::string between;     // "same node", "same leaf, other rail"
    std::int64_t pairs = 0;  // of those that were looked at: from the first node's GPUs to all others
    std::int64_t hops = 0;   // links
    double bandwidth = 0;    // of the slowest, bytes/s
    double latency_s = 0;
    std::vector<std::string> example;  // names of the links of one
  };
  std::string cluster, gpu;    // of several kinds: "8 a + 8 b"
  bool has_gpu_kinds = false;  // several
  std::int64_t nodes = 0, gpus_per_node = 0, nics_per_node = 0;
  std::vector<Links> links;
  std::vector<Routes> routes;
  // Bytes/s from the first half of the nodes to the second, and the same without any switch in the way; 0
  // where there is one node.
  double bisection = 0, unlimited_bisection = 0;
};

}  // namespace simrun
