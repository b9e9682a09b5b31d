#pragma once

#include <string>

#include "visualizer/evaluated_schedule.h"

namespace simrun {

// The page of a schedule alone: the same as of a simulation, with passes only. One unit of the costs is drawn
// as 1 ms (1 us if the makespan is above 4 million units), the activation of one stage and microbatch as
// 1 GiB. An overlapped pair is drawn as its forward and, behind it, its backward, both shortened to fit.
// REQUIRES: page_refusal(schedule).empty()
std::string schedule_page(const EvaluatedSchedule& schedule);

// Why a page cannot show it, or "": too many passes to open, or times beyond the page's numbers.
std::string page_refusal(const EvaluatedSchedule& schedule);

}  // namespace simrun
