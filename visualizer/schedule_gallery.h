#pragma once

#include <string>
#include <vector>

#include "visualizer/evaluated_schedule.h"

namespace simrun {

// Every schedule of some sizes on one page, in the given order: a table of bubble, memory and communication,
// then the diagram of each, then those refused with their rules. `asked` has the sizes and times in ticks.
// No script, nothing fetched; equal schedules, equal bytes.
// REQUIRES: gallery_refusal(schedules).empty()
std::string schedule_gallery(const std::vector<EvaluatedSchedule>& schedules,
                             const std::vector<RefusedSchedule>& refused, const PipelineShape& asked);

// Why a page cannot show them, or "": too many passes to open.
std::string gallery_refusal(const std::vector<EvaluatedSchedule>& schedules);

}  // namespace simrun
