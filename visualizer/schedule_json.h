#pragma once

#include <string>
#include <vector>

#include "visualizer/evaluated_schedule.h"

namespace simrun {

// {schedule, ranks, microbatches, virtual, makespan, idle[], span_idle[], bubble_ratio, peak_inflight_at_w[],
// peak_inflight_at_i[], parameter_copies, ops[][]}: lists by rank, times in units of the costs, ops in
// PyTorch's spelling, an overlapped pair as one "(0F8;7B3)". Of a searched schedule also placement ("loop" or
// "wave"), lower_bound, gap (how far the makespan is above it, as a share of it) and start (what the search
// started from). Ends in a newline.
std::string schedule_json(const EvaluatedSchedule& schedule);

// {"schedules": [those objects], "refused": [{schedule, why}]}, each in the given order.
std::string schedules_json(const std::vector<EvaluatedSchedule>& schedules,
                           const std::vector<RefusedSchedule>& refused);

}  // namespace simrun
