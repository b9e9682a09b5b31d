#pragma once

#include <cstdint>
#include <vector>

#include "planner/plan_progress.h"
#include "planner/simulated_plan.h"

namespace simrun {

// What may be set beside a plan; empty: everything.
struct ReferenceLimits {
  std::vector<std::int64_t> pipelines, zero_stages;
  std::int64_t max_memory = 0;  // PlanSimulation
  unsigned threads = 0;         // 0: one per processor; the plans are the same for any number
};

// What is set beside a plan: data parallel alone, ZeRO-2 and ZeRO-3 (Rajbhandari et al. 2020), each with the
// best microbatch of up to 16 sequences that divides the batch; and the best of Megatron-LM's grid of tensor
// (within a node) x pipeline x microbatch (Narayanan et al. 2021), with sequence parallelism or not, under
// 1F1B and the job's ZeRO stage, or the first that is allowed. As many of them as the limits leave.
//
// Of models whose layers are alike by kind (has_layer_kinds) the grid is estimated, and simulated from the
// best estimate on until none is left that could be as fast if its estimate were half too high. Where
// `progress` stops it, what was simulated until then.
std::vector<SimulatedPlan> reference_plans(const Job& job, const JobLoader& load,
                                           const ReferenceLimits& limits = {},
                                           const PlanProgress& progress = {});

}  // namespace simrun
