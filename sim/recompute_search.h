#pragma once

#include <functional>
#include <string>

#include "configs/job.h"
#include "schedules/plan.h"

namespace simrun {

// The cheapest recompute that fits: recompute `granularity: auto`.
//
// What is chosen is how many layers of each virtual stage recompute each module, and how many are recomputed
// whole. Modules are taken in the order of recompute time per byte saved, each measured on a plan that
// recomputes it everywhere; layers recomputed whole come last. For every set of modules (of more than three:
// every beginning of that order, and every one alone) each group of pipeline ranks that share stages takes
// the fewest layers that fit, found by halving under the assumption that more recompute never needs more
// memory. Every figure is that of a compiled plan, walked in issue order; of the sets that fit the one with
// the shortest simulated step is chosen, and then what later choices made needless is dropped. What fits
// keeps the limit that is written and, under a framework, what that leaves of the GPU (room_for_plan());
// without one the default limit is the GPU less its reserve.
//
// If nothing fits, the plan with the smallest peak is returned, and its found_recompute says that it misses.
using CompileJob = std::function<Plan(const Job&)>;
Plan plan_with_cheapest_recompute(const Job& job, const CompileJob& compile);

// The config as the recompute section of a job, in flow style.
std::string recompute_section(const RecomputeConfig& config);

}  // namespace simrun
