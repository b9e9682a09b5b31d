// What the searched schedules reach, beside the orders that the reference's own searches found.
#include <algorithm>
#include <catch2/catch.hpp>

#include "schedule_vectors.h"
#include "schedules/evaluate_schedule.h"

namespace simrun {
namespace {

bool is_searched(const ScheduleVector& vector) {
  const std::vector<std::string> names = {"zb_h2", "zb_auto", "v_half", "v_min", "v_auto"};
  // The greedy variant of zb_v takes costs and a limit: that is v_auto here.
  return !vector.exact && vector.canonical &&
         (vector.schedule == "zb_v" || std::count(names.begin(), names.end(), vector.schedule) > 0);
}

// For the listed times; a limit that counts half an activation between I and W is given as what the reference
// held by W.
void check_no_worse(const ScheduleVector& vector, const VectorFigures& figures) {
  const ScheduleEntry* entry = find_schedule(vector.schedule == "zb_v" ? "v_auto" : vector.schedule);
  REQUIRE(entry);
  PipelineShape shape = vector.shape;
  shape.times = figures.times;
  if (vector.memory != "1,0,-1") shape.memory_limit = std::ranges::max(vector.peak_at_w);
  INFO(vector.schedule << " p " << shape.ranks << " m " << shape.microbatches << " limit "
                       << shape.memory_limit << " times " << shape.times.forward << ", "
                       << shape.times.backward_input << ", " << shape.times.backward_weight
                       << " communication " << shape.times.communication);
  const ScheduleTimes times = evaluate(entry->build(shape), shape);
  CHECK(times.makespan <= figures.makespan);
  CHECK(std::ranges::max(times.peak_in_flight_at_w) <= std::ranges::max(vector.peak_at_w));
}

}  // namespace

TEST_CASE("searched schedules are no longer and hold no more than the reference's, on a few ranks") {
  for (const ScheduleVector& vector : read_schedule_vectors()) {
    const bool small = vector.shape.ranks <= 2 || (vector.shape.ranks == 4 && vector.schedule == "zb_auto");
    if (is_searched(vector) && small && vector.shape.microbatches <= 8)
      check_no_worse(vector, vector.figures.front());
  }
}

// A minute with sanitizers, so only on demand.
TEST_CASE("so they are at every listed size for every listed set of times", "[.every_size]") {
  for (const ScheduleVector& vector : read_schedule_vectors())
    if (is_searched(vector))
      for (const VectorFigures& figures : vector.figures) check_no_worse(vector, figures);
}

}  // namespace simrun
