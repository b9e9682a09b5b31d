#pragma once

#include "schedules/pipeline_schedule.h"

namespace simrun {

// Rows of pipeline_schedules() whose order comes out of a search (schedule_search.h).
std::vector<ScheduleEntry> searched_schedules();

}  // namespace simrun
