#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/device_balance.h"
#include "planner/simulated_plan.h"

namespace simrun {

struct BalancedPlan {
  DeviceBalance balance;
  SimulatedPlan simulated;
};

// Whale's hardware-aware balancing of a job over devices of unlike speed and memory (Jia et al. 2022, USENIX
// ATC, section 3.5). First the job as it is written, then, each simulated:
//
//   even by FLOPs   stages of equal work, as if all GPUs were alike: what a pipeline is compared with
//   Whale           stages in the order of their devices' memory, the largest first (beyond Whale: last, or
//                   by speed), and then replicas of one kind each; layers of the stages and batches of the
//                   replicas by Algorithm 1 (planner/load_shares.h), speed being the datasheet's FLOP/s
//   by their times  the same, but by the times that the simulator has for each device's part, so that the
//   last
//                   device is done first
//
// Memory is the simulator's: what does not fit gets less, and is looked at again. Where replicas have too few
// sequences to share out, microbatches are also tried two, four, ... times as large. A balance that changes
// nothing is left out. Tensor-parallel ranks and pipeline stages of several kinds go at the pace of their
// slowest.
//
// No GPU's part may take more than `max_memory` bytes, where that is not 0. Throws ConfigError, or what
// compile() throws, for the job as it is written.
std::vector<BalancedPlan> balanced_plans(const JobLoader& load, std::int64_t max_memory = 0);

}  // namespace simrun
