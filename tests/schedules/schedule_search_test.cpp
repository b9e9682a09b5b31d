#include "schedules/schedule_search.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>

#include "schedule_vectors.h"
#include "schedules/evaluate_schedule.h"

namespace simrun {
namespace {

int most(const std::vector<int>& numbers) { return *std::max_element(numbers.begin(), numbers.end()); }

PipelineShape with_times(PipelineShape shape, const PassTimes& times) {
  shape.times = times;
  return shape;
}

const PassTimes uneven = {2, 4, 3, 1, 6, 0};
const PassTimes far_apart = {1, 2, 1, 1, 3, 1};
const PassTimes profiled = {23, 48, 31, 17, 71, 5};

// The schedule that must be at least as good as the reference's search, with the memory that the reference
// holds, whatever limit it was given.
Schedule rival(const ScheduleVector& vector, PipelineShape shape) {
  shape.memory_limit = most(vector.peak_at_w);
  if (vector.placement == Placement::loop && vector.shape.virtual_stages > 1)
    return search_schedule(shape, {.placement = Placement::loop, .named_seeds = false, .effort = 500'000})
        .schedule;
  const std::string name = vector.schedule == "zb_v" || vector.schedule == "v_1f1b" ? "v_auto"
                           : vector.schedule == "zb_h1"                             ? "zb_auto"
                                                                                    : vector.schedule;
  return find_schedule(name)->build(shape);
}

}  // namespace

TEST_CASE("searched schedules are no longer and hold no more than the reference's searches found", "[long]") {
  int compared = 0;
  for (const ScheduleVector& vector : read_schedule_vectors()) {
    if (vector.exact || vector.schedule == "hanayo") continue;
    const bool looks_at_times =
        vector.schedule != "zb_h2" && vector.schedule != "v_half" && vector.schedule != "v_min";
    Schedule schedule = rival(vector, vector.shape);
    for (const VectorFigures& figures : vector.figures) {
      const PipelineShape shape = with_times(vector.shape, figures.times);
      CAPTURE(vector.schedule, shape.ranks, shape.microbatches, shape.memory_limit, shape.times.forward,
              shape.times.communication);
      if (looks_at_times) schedule = rival(vector, shape);
      const ScheduleTimes times = evaluate(schedule, shape);
      CHECK(times.makespan <= figures.makespan);
      CHECK(most(times.peak_in_flight_at_w) <= most(vector.peak_at_w));
      // One search of the reference counted half of an activation as released at I, which a limit here
      // cannot.
      if (vector.memory == "1,0,-1") CHECK(most(times.peak_in_flight_at_i) <= most(vector.peak_at_i));
      CHECK(makespan_lower_bound(shape, vector.placement) <= figures.makespan);
      ++compared;
    }
  }
  CHECK(compared == 52 * 3);  // lists that a search of the reference made, each under three sets of times
}

TEST_CASE("zb_h2: no rank idles between its first and its last pass, at 7 activations before the first I") {
  const PipelineShape shape = {.ranks = 4, .microbatches = 8};
  const ScheduleTimes times = evaluate(zb_h2(shape), shape);
  CHECK(times.makespan == 3 + 8 * 3);
  CHECK(times.span_idle == std::vector<std::int64_t>{0, 0, 0, 0});
  CHECK(most(times.peak_in_flight_at_i) == 7);  // 2 p - 1
}

TEST_CASE("zb_h2, v_half and v_min do not look at the shape's times; zb_auto and v_auto do") {
  const PipelineShape unit = {.ranks = 4, .microbatches = 12};
  CHECK(zb_h2(unit) == zb_h2(with_times(unit, uneven)));
  CHECK(zb_auto(unit) != zb_auto(with_times(unit, uneven)));
  const PipelineShape two = {.ranks = 4, .virtual_stages = 2, .microbatches = 12};
  CHECK(v_half(two) == v_half(with_times(two, uneven)));
  CHECK(v_min(two) == v_min(with_times(two, uneven)));
  CHECK(v_auto(two) != v_auto(with_times(two, uneven)));
}

namespace {

// Makespans of an automatic schedule under every limit from `least` to `most`, checked to be within each,
// never to grow, and never to be above that of a named schedule which holds no more.
void check_every_limit(const std::string& name, PipelineShape shape, int most_memory,
                       const std::vector<std::string>& rules) {
  std::int64_t before = std::numeric_limits<std::int64_t>::max();
  for (shape.memory_limit = shape.virtual_stages; shape.memory_limit <= most_memory; ++shape.memory_limit) {
    CAPTURE(name, shape.ranks, shape.microbatches, shape.memory_limit, shape.times.forward,
            shape.times.communication);
    const ScheduleTimes automatic = evaluate(find_schedule(name)->build(shape), shape);
    CHECK(most(automatic.peak_in_flight_at_w) <= shape.memory_limit);
    CHECK(automatic.makespan <= before);
    before = automatic.makespan;
    for (const std::string& rule : rules) {
      const ScheduleTimes named = evaluate(find_schedule(rule)->build(shape), shape);
      if (most(named.peak_in_flight_at_w) > shape.memory_limit) continue;
      CAPTURE(rule);
      CHECK(automatic.makespan <= named.makespan);
    }
  }
}

}  // namespace

TEST_CASE("zb_auto: more memory never makes it longer, and it is never worse than zb_h1 or 1f1b", "[long]") {
  for (const int p : {1, 2, 3, 5})
    for (const int m : {1, 2, 7, 16})
      for (const PassTimes& times : {PassTimes{}, uneven, profiled})
        check_every_limit("zb_auto", with_times({.ranks = p, .microbatches = m}, times),
                          std::min(2 * p + 2, m), {"zb_h1", "1f1b"});
}

TEST_CASE("v_auto: more memory never makes it longer, and it is never worse than v_half, v_min or zb_v",
          "[long]") {
  for (const auto& [p, m] : {std::pair{2, 3}, {2, 8}, {3, 7}, {4, 3}})
    for (const PassTimes& times : {uneven, profiled})
      check_every_limit("v_auto", with_times({.ranks = p, .virtual_stages = 2, .microbatches = m}, times),
                        2 * p + 1, {"v_half", "v_min", "zb_v"});
}

TEST_CASE("thousands of microbatches repeat the middle of a few, and lose nothing by it") {
  PipelineShape shape = {.ranks = 16, .microbatches = 1500};
  CHECK(evaluate(zb_auto(shape), shape).makespan == 15 + 1500 * 3);  // (p - 1) F + m (F + I + W)
  shape.memory_limit = 16;
  shape.times = uneven;
  const Schedule schedule = zb_auto(shape);
  CHECK(check_schedule(schedule, shape).empty());
  CHECK(evaluate(schedule, shape).makespan <= evaluate(find_schedule("zb_h1")->build(shape), shape).makespan);
}

namespace {

// What the search finds with and without named schedules as seeds, against every named schedule of the
// placement in the same memory.
void check_against_named(const PipelineShape& shape, Placement placement) {
  std::int64_t best_named = std::numeric_limits<std::int64_t>::max();
  for (const ScheduleEntry& entry : pipeline_schedules()) {
    if (entry.placement != placement || !entry.refusal(shape).empty()) continue;
    const ScheduleTimes named = evaluate(entry.build(shape), shape);
    if (most(named.peak_in_flight_at_w) <= shape.memory_limit)
      best_named = std::min(best_named, named.makespan);
  }
  for (const bool seeds : {true, false}) {
    CAPTURE(static_cast<int>(placement), shape.virtual_stages, shape.memory_limit, shape.times.forward,
            seeds);
    const SearchResult result =
        search_schedule(shape, {.placement = placement, .named_seeds = seeds, .effort = 600'000});
    CHECK(check_schedule(result.schedule, shape).empty());
    const ScheduleTimes found = evaluate(result.schedule, shape);
    CHECK(found.makespan == result.makespan);
    CHECK(result.lower_bound <= result.makespan);
    CHECK(most(found.peak_in_flight_at_w) <= shape.memory_limit);
    CHECK(found.makespan <= best_named);
  }
}

}  // namespace

TEST_CASE("the search beats or equals every named schedule in the same memory, given as seeds or not",
          "[long]") {
  for (const PassTimes& times : {PassTimes{}, profiled}) {
    PipelineShape shape = with_times({.ranks = 4, .virtual_stages = 1, .microbatches = 8}, times);
    for (shape.memory_limit = 4; shape.memory_limit <= 8; shape.memory_limit += 4)
      check_against_named(shape, Placement::loop);
    shape.memory_limit = 5;
    check_against_named(shape, Placement::bidirectional);
    shape.virtual_stages = 2;
    for (const int limit : {6, 9}) {
      shape.memory_limit = limit;
      check_against_named(shape, Placement::wave);
    }
    check_against_named(shape, Placement::loop);
  }
}

TEST_CASE("auto: the best of loop and wave, not longer than any schedule that holds every stage once",
          "[long]") {
  for (const int virtual_stages : {1, 2, 3})
    for (const PassTimes& times : {far_apart, profiled})
      for (const int limit : {virtual_stages + 1, 3 * virtual_stages, 0}) {
        PipelineShape shape = {.ranks = 3, .virtual_stages = virtual_stages, .microbatches = 6};
        shape.times = times;
        shape.memory_limit = limit;
        REQUIRE(best_order_refusal(shape, {.effort = 200'000}).empty());
        const SearchResult seeded = best_order(shape, {.effort = 200'000});
        const SearchResult alone = best_order(shape, {.named_seeds = false, .effort = 200'000});
        CHECK(evaluate(seeded.schedule, shape).makespan == seeded.makespan);
        CHECK(seeded.lower_bound <= std::min(seeded.makespan, alone.makespan));
        for (const ScheduleEntry& entry : pipeline_schedules()) {
          if (entry.placement == Placement::bidirectional || !entry.refusal(shape).empty()) continue;
          const ScheduleTimes named = evaluate(entry.build(shape), shape);
          CAPTURE(entry.name, virtual_stages, limit, times.forward);
          if (limit > 0 && most(named.peak_in_flight_at_w) > limit) continue;
          CHECK(seeded.makespan <= named.makespan);
          CHECK(alone.makespan <= named.makespan);
        }
      }
}

TEST_CASE("auto: refuses what cannot be, with what can") {
  const auto refusal = [](const PipelineShape& shape, std::int64_t effort) {
    return best_order_refusal(shape, {.effort = effort});
  };
  CHECK(refusal({.ranks = 4, .virtual_stages = 2, .microbatches = 8, .memory_limit = 1}, 1'000'000) ==
        "auto holds an activation of each of a rank's 2 stages at once: the memory limit must be at least 2, "
        "not 1");
  CHECK(refusal({.ranks = 4, .virtual_stages = 2, .microbatches = 8, .memory_limit = 2}, 1'000'000).empty());
  // 3 passes x 100 ranks x 200 microbatches = 60,000, 20 times.
  CHECK(refusal({.ranks = 100, .microbatches = 200}, 1'199'999) ==
        "auto tries 20 orders or more, here of 60000 passes each: that is an effort of 2 million");
  CHECK(refusal({.ranks = 100, .microbatches = 200}, 1'200'000).empty());
  CHECK(!refusal({.ranks = 4, .microbatches = 8, .slices = 2}, 1'000'000).empty());
}

TEST_CASE("the same search finds the same order") {
  PipelineShape shape = {.ranks = 4, .virtual_stages = 2, .microbatches = 8};
  shape.times = profiled;
  shape.memory_limit = 5;
  const SearchOptions options = {.placement = Placement::wave, .named_seeds = false, .effort = 50'000};
  CHECK(search_schedule(shape, options).schedule == search_schedule(shape, options).schedule);
}

TEST_CASE("the search runs backwards whole where that is asked for or faster") {
  PipelineShape shape = {.ranks = 2, .microbatches = 4};
  const auto whole = [](const Schedule& schedule) {
    return std::all_of(schedule.begin(), schedule.end(), [](const RankOps& ops) {
      return std::all_of(ops.begin(), ops.end(), [](const Op& op) {
        return op.kind == OpKind::forward || op.kind == OpKind::backward;
      });
    });
  };
  const SearchResult asked = search_schedule(shape, {.split_backward = false});
  CHECK(whole(asked.schedule));
  CHECK(asked.makespan == 15);  // 1F1B: 4 x (1 + 2) + (2 - 1) x (1 + 2)
  shape.times.backward_weight = 10;
  CHECK(whole(search_schedule(shape, {}).schedule));
}

TEST_CASE("stages of different length are searched with their own times") {
  PipelineShape shape = {.ranks = 3, .microbatches = 9};
  shape.stage_times = {uneven, far_apart, profiled};
  shape.memory_limit = 3;
  const SearchResult result = search_schedule(shape, {.effort = 300'000});
  CHECK(evaluate(result.schedule, shape).makespan == result.makespan);
  CHECK(result.makespan < evaluate(find_schedule("1f1b")->build(shape), shape).makespan);
}

}  // namespace simrun
