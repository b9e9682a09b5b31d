#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "configs/load_job.h"

namespace simrun {

// How a job's load is laid over devices of unlike speed and memory, beside how it is split. What is empty, or
// 0, stays as it is.
struct DeviceBalance {
  std::string layout;                  // parallelism.pipeline_model_parallel_layout
  std::vector<std::int64_t> rank_map;  // parallelism.rank_map: the rank of every device
  std::string placement;               // what the map is for, in words
  std::int64_t micro_batch = 0;        // training.micro_batch_size, of which `replicas` is the mean
  std::vector<std::int64_t> replicas;  // training.replica_micro_batch_sizes
  // parallelism.stage_data_parallel_sizes: stages of one kind each, of as many GPUs as that has.
  std::vector<std::int64_t> stage_data;
  auto operator<=>(const DeviceBalance&) const = default;
  bool empty() const { return *this == DeviceBalance{}; }
};

std::vector<Override> overrides_of(const DeviceBalance& balance);

// "layers 14+10, batches 8 x 19 + 8 x 13", "" of an empty one. Neighbours that are equal count together.
std::string describe(const DeviceBalance& balance);

// Ways to lay a pipeline over the kinds of GPU: stages in the order of memory or of speed, the most first or
// last, so that each is of one kind, or whole replicas, so that each of these is; and stages of unlike size,
// where the kinds have unlike numbers of GPUs, one behind the other: every way to deal the stages over the
// kinds (as Metis' plans have them, Um et al. 2024, ATC). The loader may refuse those. One that is the job's
// own is empty; of a job that says itself where its ranks are there is no other.
std::vector<DeviceBalance> placements_of(const Job& job);

}  // namespace simrun
