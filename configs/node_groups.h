#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "configs/cluster_config.h"

namespace simrun {

// What a GPU of the cluster is, by its number: GPUs are numbered node by node, group by group. A cluster of
// equal nodes has one kind.
const Gpu& gpu_at(const Cluster& cluster, std::int64_t device);

// Kinds of GPU, numbered in the order of their first nodes. Groups with equal GPUs are of one kind, however
// their links differ.
class GpuKinds {
 public:
  explicit GpuKinds(const Cluster& cluster);  // must outlive it

  std::size_t count() const { return gpus_.size(); }
  const Gpu& gpu(std::size_t kind) const { return *gpus_[kind]; }
  std::size_t of(std::int64_t device) const;
  std::int64_t devices(std::size_t kind) const;  // of the cluster

 private:
  struct Range {
    std::int64_t end = 0;  // first device behind it
    std::size_t kind = 0;
  };
  std::vector<const Gpu*> gpus_;
  std::vector<Range> ranges_;  // empty: one kind
  std::int64_t all_ = 0;
};

// "a100_sxm_80gb", or "8 v100_sxm2_32gb + 8 p100_sxm2".
std::string gpus_text(const Cluster& cluster);

// The least memory of any GPU, in bytes.
std::int64_t least_memory(const Cluster& cluster);

}  // namespace simrun
