#pragma once

#include "schedules/one_f_one_b.h"
#include "visualizer/evaluated_schedule.h"

namespace simrun {

// A schedule evaluated with times in units of the costs (not ticks).
inline EvaluatedSchedule evaluated_schedule(std::string name, Placement placement, PipelineShape shape,
                                            Schedule schedule) {
  PassTimes& times = shape.times;
  for (std::int64_t* time : {&times.forward, &times.backward, &times.backward_input, &times.backward_weight,
                             &times.overlapped, &times.communication})
    *time *= ticks_per_unit;
  ScheduleTimes result = evaluate(schedule, shape);
  return {std::move(name), placement, shape, std::move(schedule), std::move(result)};
}

// 1F1B, F = 1 and B = 2.
inline EvaluatedSchedule evaluated_1f1b(int ranks, int microbatches) {
  return evaluated_schedule("1f1b", Placement::loop, {.ranks = ranks, .microbatches = microbatches},
                            one_f_one_b(ranks, microbatches));
}

}  // namespace simrun
