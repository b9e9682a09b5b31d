#include "schedules/schedule_search.h"
#include "schedules/tuned_schedule.h"
#include "schedules/zb_h1.h"

namespace simrun {

static TunedOrder zb_h1_order(const PipelineShape& shape) {
  const PipelineShape few = few_microbatches(shape);
  const auto order = [](const PipelineShape& sized) {
    return to_pass_order(make_search_model(sized, Placement::loop), zb_h1(sized.ranks, sized.microbatches));
  };
  return {order(few), order(shape)};
}

Schedule zb_auto(const PipelineShape& shape) {
  PipelineShape limited = shape;
  if (limited.memory_limit == 0) limited.memory_limit = 2 * shape.ranks;
  return tuned_schedule_within(
      limited, {.placement = Placement::loop, .passes = 200'000, .rules = {zb_h1_order(shape)}});
}

Schedule zb_h2(const PipelineShape& shape) {
  PipelineShape unit;
  unit.ranks = shape.ranks;
  unit.microbatches = shape.microbatches;
  unit.memory_limit = 2 * shape.ranks;
  return tuned_schedule(unit, {.placement = Placement::loop,
                               .other_times = other_times_than_equal(),
                               .input_limit = 2 * shape.ranks - 1,
                               .rules = {zb_h1_order(unit)}});
}

}  // namespace simrun
