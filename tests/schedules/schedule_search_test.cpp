#include "schedules/schedule_search.h"

#include <algorithm>
#include <catch2/catch.hpp>

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

TEST_CASE("searched schedules are no longer and hold no more than the reference's searches found") {
  int compared = 0;
  for (const ScheduleVector& vector : read_schedule_vectors()) {
    if (vector.exact || vector.schedule == "hanayo") continue;
    for (const VectorFigures& figures : vector.figures) {
      const PipelineShape shape = with_times(vector.shape, figures.times);
      CAPTURE(vector.schedule, shape.ranks, shape.microbatches, shape.memory_limit, shape.times.forward,
              shape.times.communication);
      const Schedule schedule = rival(vector, shape);
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

TEST_CASE("zb_auto is never worse than zb_h1 with as many activations as ranks") {
  for (const int p : {1, 2, 3, 5, 8})
    for (const int m : {1, 2, 7, 16})
      for (const PassTimes& times : {PassTimes{}, uneven, profiled}) {
        PipelineShape shape = {.ranks = p, .microbatches = m};
        shape.times = times;
        shape.memory_limit = p;
        CAPTURE(p, m, times.forward);
        const ScheduleTimes automatic = evaluate(zb_auto(shape), shape);
        CHECK(automatic.makespan <= evaluate(find_schedule("zb_h1")->build(shape), shape).makespan);
        CHECK(most(automatic.peak_in_flight_at_w) <= p);
      }
}

TEST_CASE("v_auto is never worse than v_half, v_min or zb_v in their memory") {
  for (const int p : {2, 3, 4, 7})
    for (const int m : {3, 12})
      for (const PassTimes& times : {PassTimes{}, uneven, far_apart}) {
        PipelineShape shape = {.ranks = p, .virtual_stages = 2, .microbatches = m};
        shape.times = times;
        for (const auto& [name, memory] : std::vector<std::pair<std::string, int>>{
                 {"v_half", v_half_memory(p)}, {"v_min", v_min_memory(p)}, {"zb_v", 2 * p}}) {
          shape.memory_limit = memory;
          CAPTURE(p, m, name, times.forward);
          const ScheduleTimes automatic = evaluate(v_auto(shape), shape);
          const ScheduleTimes rule = evaluate(find_schedule(name)->build(shape), shape);
          CHECK(automatic.makespan <= rule.makespan);
          CHECK(most(automatic.peak_in_flight_at_w) <= memory);
          CHECK(most(rule.peak_in_flight_at_w) <= memory);
        }
      }
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

TEST_CASE("the search beats or equals every named schedule in the same memory, given as seeds or not") {
  struct Case {
    Placement placement;
    int virtual_stages, memory_limit;
  };
  for (const Case& c : std::vector<Case>{{Placement::loop, 1, 4},
                                         {Placement::loop, 1, 8},
                                         {Placement::loop, 2, 8},
                                         {Placement::wave, 2, 6},
                                         {Placement::wave, 2, 9},
                                         {Placement::bidirectional, 1, 5}})
    for (const PassTimes& times : {PassTimes{}, profiled})
      for (const bool seeds : {true, false}) {
        PipelineShape shape = {.ranks = 4, .virtual_stages = c.virtual_stages, .microbatches = 8};
        shape.times = times;
        shape.memory_limit = c.memory_limit;
        CAPTURE(static_cast<int>(c.placement), c.virtual_stages, c.memory_limit, times.forward, seeds);
        const SearchResult result =
            search_schedule(shape, {.placement = c.placement, .named_seeds = seeds, .effort = 600'000});
        CHECK(check_schedule(result.schedule, shape).empty());
        const ScheduleTimes found = evaluate(result.schedule, shape);
        CHECK(found.makespan == result.makespan);
        CHECK(result.lower_bound <= result.makespan);
        CHECK(most(found.peak_in_flight_at_w) <= c.memory_limit);
        for (const ScheduleEntry& entry : pipeline_schedules()) {
          if (entry.placement != c.placement || !entry.refusal(shape).empty()) continue;
          const ScheduleTimes named = evaluate(entry.build(shape), shape);
          CAPTURE(entry.name);
          if (most(named.peak_in_flight_at_w) <= c.memory_limit) CHECK(found.makespan <= named.makespan);
        }
      }
}

TEST_CASE("the same search finds the same order") {
  PipelineShape shape = {.ranks = 4, .virtual_stages = 2, .microbatches = 8};
  shape.times = profiled;
  shape.memory_limit = 5;
  const SearchOptions options = {.placement = Placement::wave, .effort = 200'000};
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
