#pragma once

#include <cstdint>
#include <vector>

#include "schedules/plan.h"

namespace simrun {

// One data-parallel rank's part of a pipeline rank, its slowest and fullest GPU.
struct PartLoad {
  double compute_s = 0;
  std::int64_t peak_bytes = 0, spare_bytes = 0;
  std::int64_t activation_bytes = 0;  // of the peak, what grows with the batch
};

// By pipeline rank, then data-parallel rank.
using PartLoads = std::vector<std::vector<PartLoad>>;

// What a plan asks of its devices, each by itself: compute without waiting, and memory, as the simulator has
// them; a GPU has `max_memory` bytes for it at most, where that is not 0.
PartLoads part_loads(const Plan& plan, std::int64_t max_memory);

}  // namespace simrun
