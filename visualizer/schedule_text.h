#pragma once

#include <string>
#include <vector>

#include "visualizer/evaluated_schedule.h"

namespace simrun {

struct ScheduleTextOptions {
  bool color = false;  // ANSI colours
  int width = 100;     // columns of the terminal: the grid folds there
};

// The grid, one row per rank on the axis of time, a box per pass with its kind and microbatch, then makespan,
// idle, bubble and activations in flight. A grid too long for a screen is cut, and says so. Pure.
std::string schedule_text(const EvaluatedSchedule& schedule, const ScheduleTextOptions& options);

// The grid alone.
std::string schedule_grid_text(const EvaluatedSchedule& schedule, const ScheduleTextOptions& options);

// One row per schedule in the given order, then those refused.
std::string schedules_table(const std::vector<EvaluatedSchedule>& schedules,
                            const std::vector<RefusedSchedule>& refused);

}  // namespace simrun
