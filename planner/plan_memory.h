#pragma once

#include <cstdint>
#include <string>

#include "configs/cluster_config.h"
#include "schedules/summary.h"

namespace simrun {

// Whether a plan's bytes are there, and of which GPU that is said: one that lacks them, or else the one with
// most bytes. That one is what PlanConfig::max_memory is held against, and what least memory means.
struct PlanMemory {
  std::int64_t peak_bytes = 0, limit_bytes = 0;
  std::string gpu;                     // its kind
  bool fits = false;                   // the hosts' included
  std::int64_t host_excess_bytes = 0;  // above the memory of a node's host, and above its NVMe
};

// Of the cluster's largest GPU; bytes.
std::int64_t largest_memory(const Cluster& cluster);

// max_memory: bytes of a GPU; 0: what it has.
PlanMemory plan_memory(const Summary& summary, std::int64_t max_memory);

}  // namespace simrun
