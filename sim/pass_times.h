#pragma once

#include <vector>

#include "schedules/pipeline_schedule.h"
#include "schedules/plan.h"

namespace simrun {

// What each stage's passes take in picoseconds if nothing is waited for: the inputs are there, no other rank
// is late, no link is shared. Collectives inside a pass count as far as compute waits for them; reductions
// over the data-parallel ranks do not. By global stage; every time is at least 1.
//
// A pass that the plan has in several variants counts as the one that runs most often. What the plan lacks
// follows from what it has: B = I + W, or I and W half of B each. `communication` is the stage's slowest
// pipeline transfer, 0 if it sends nothing.
std::vector<PassTimes> pass_times(const Plan& plan);

}  // namespace simrun
