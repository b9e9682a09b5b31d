#pragma once

#include <string>
#include <vector>

#include "configs/cluster_config.h"

namespace simrun {

// What cannot be about a cluster's links: `key` below `cluster` names the place, "fabric.cores".
struct NetworkFault {
  std::string key;
  std::string message;
  std::string hint = "";
};

// All of them, for the loader and for plans that come from files: NICs per GPU, the wiring of a node and the
// fabric. Ranges of single numbers are the loader's, except where a route would not end without them.
std::vector<NetworkFault> network_faults(const Cluster& cluster);

}  // namespace simrun
