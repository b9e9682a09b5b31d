#pragma once

#include <vector>

#include "configs/job.h"
#include "schedules/plan.h"

namespace simrun {

// The devices of each pipeline rank, in the order of its mesh: tp fastest, then cp, dp. Rank r of the job (in
// Megatron-LM's numbering, tp fastest, then cp, dp and pp) is on device r, unless parallelism.rank_order
// strings the axes over the devices otherwise or parallelism.rank_map says which rank each device runs.
// Consecutive devices are one range: Megatron-LM's order has one per pipeline rank.
std::vector<std::vector<DeviceRange>> placed_devices(const Job& job);

}  // namespace simrun
