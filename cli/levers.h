#pragma once

#include <string>

#include "configs/load_job.h"
#include "schedules/plan.h"
#include "schedules/summary.h"
#include "schedules/timeline.h"

namespace simrun {

// For a plan that does not fit: the stage, the moment, the amount, what fills it, and the change of the job
// that frees most. The candidate changes are compiled and their memory walked, not estimated. `job` is null
// for a Plan file: there is nothing to change then.
std::string explain_misfit(const Plan& plan, const Timeline& timeline, const Summary& summary,
                           const LoadedJob* job, const LoadOptions& options);

// For granularity `auto` where nothing fits its limit: what was found and by how much it misses.
std::string explain_recompute_misfit(const FoundRecompute& found);

}  // namespace simrun
