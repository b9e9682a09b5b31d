#include <catch2/catch.hpp>
#include <numeric>

#include "schedules/evaluate_schedule.h"

namespace simrun {
namespace {

using Times = std::vector<std::int64_t>;

// 1F1B, 2 ranks, 2 microbatches.
const Schedule two_ranks = {
    {{OpKind::forward, 0, 0}, {OpKind::forward, 0, 1}, {OpKind::backward, 0, 0}, {OpKind::backward, 0, 1}},
    {{OpKind::forward, 1, 0}, {OpKind::backward, 1, 0}, {OpKind::forward, 1, 1}, {OpKind::backward, 1, 1}}};

TEST_CASE("evaluate: 1F1B, F = 1 and B = 2, takes (m + p - 1)(F + B) and idles (p - 1)(F + B)") {
  // rank 0: F0 0-1, F1 1-2, B0 4-6, B1 7-9; rank 1: F0 1-2, B0 2-4, F1 4-5, B1 5-7.
  const ScheduleTimes times = evaluate(two_ranks, {.ranks = 2, .microbatches = 2});
  CHECK(times.makespan == 9);
  CHECK(times.start == std::vector<Times>{{0, 1, 4, 7}, {1, 2, 4, 5}});
  CHECK(times.end == std::vector<Times>{{1, 2, 6, 9}, {2, 4, 5, 7}});
  CHECK(times.idle == Times{3, 3});
  CHECK(times.span_idle == Times{3, 0});  // rank 1 starts 1 late and ends 2 early
  CHECK(times.bubble_ratio == Approx(6.0 / 18));
  CHECK(times.peak_in_flight_at_w == std::vector<int>{2, 1});
  CHECK(times.peak_in_flight_at_i == std::vector<int>{2, 1});
}

TEST_CASE("evaluate: communication delays every result on its way to another rank, and occupies nobody") {
  // rank 1: F0 2-3, B0 3-5, F1 5-6, B1 6-8; rank 0: B0 6-8, B1 9-11.
  const ScheduleTimes times =
      evaluate(two_ranks, {.ranks = 2, .microbatches = 2, .times = {.communication = 1}});
  CHECK(times.makespan == 11);
  CHECK(times.idle == Times{5, 5});
}

TEST_CASE("evaluate: two stages of one rank hand over without communication") {
  const Schedule turn = {
      {{OpKind::forward, 0, 0}, {OpKind::forward, 1, 0}, {OpKind::backward, 1, 0}, {OpKind::backward, 0, 0}}};
  CHECK(evaluate(turn, {.ranks = 1, .virtual_stages = 2, .times = {.communication = 100}}).makespan == 6);
}

TEST_CASE("evaluate: a split backward hands its gradient on at the end of I, a whole one at the end of B") {
  const Schedule split = {
      {{OpKind::forward, 0, 0}, {OpKind::backward_input, 0, 0}, {OpKind::backward_weight, 0, 0}},
      {{OpKind::forward, 1, 0}, {OpKind::backward_input, 1, 0}, {OpKind::backward_weight, 1, 0}}};
  const ScheduleTimes times = evaluate(split, {.ranks = 2});
  CHECK(times.start[0][1] == 3);  // F 0-1, F 1-2, I of rank 1 2-3
  CHECK(times.makespan == 5);
  const Schedule whole = {{{OpKind::forward, 0, 0}, {OpKind::backward, 0, 0}},
                          {{OpKind::forward, 1, 0}, {OpKind::backward, 1, 0}}};
  CHECK(evaluate(whole, {.ranks = 2}).start[0][1] == 4);
}

TEST_CASE("evaluate: W keeps an activation alive, I alone does not") {
  const Schedule late_w = {{{OpKind::forward, 0, 0},
                            {OpKind::backward_input, 0, 0},
                            {OpKind::forward, 0, 1},
                            {OpKind::backward_input, 0, 1},
                            {OpKind::backward_weight, 0, 0},
                            {OpKind::backward_weight, 0, 1}}};
  const ScheduleTimes times = evaluate(late_w, {.ranks = 1, .microbatches = 2});
  CHECK(times.peak_in_flight_at_w == std::vector<int>{2});
  CHECK(times.peak_in_flight_at_i == std::vector<int>{1});
}

TEST_CASE(
    "evaluate: an overlapped pair is one step of its own length, whose forward counts before the release") {
  const Schedule pair = {{{OpKind::forward, 0, 0},
                          {.kind = OpKind::forward, .microbatch = 1, .overlaps_next = true},
                          {OpKind::backward, 0, 0},
                          {OpKind::backward, 0, 1}}};
  const ScheduleTimes times = evaluate(pair, {.ranks = 1, .microbatches = 2, .times = {.overlapped = 2}});
  CHECK(times.start == std::vector<Times>{{0, 1, 1, 3}});
  CHECK(times.end == std::vector<Times>{{1, 3, 3, 5}});
  CHECK(times.idle == Times{0});
  CHECK(times.peak_in_flight_at_w == std::vector<int>{2});
}

TEST_CASE("evaluate: slices go forward in order and backward in reverse") {
  const auto op = [](OpKind kind, int stage, int slice) {
    return Op{.kind = kind, .stage = stage, .slice = slice};
  };
  const Schedule sliced = {{op(OpKind::forward, 0, 0), op(OpKind::forward, 0, 1), op(OpKind::backward, 0, 1),
                            op(OpKind::backward, 0, 0)},
                           {op(OpKind::forward, 1, 0), op(OpKind::forward, 1, 1), op(OpKind::backward, 1, 1),
                            op(OpKind::backward, 1, 0)}};
  // rank 1: F 1-2, F 2-3, B 3-5, B 5-7; rank 0: B of slice 1 5-7, of slice 0 7-9.
  CHECK(evaluate(sliced, {.ranks = 2, .slices = 2}).makespan == 9);
  Schedule wrong = sliced;
  std::swap(wrong[1][2], wrong[1][3]);
  CHECK_THROWS_AS(evaluate(wrong, {.ranks = 2, .slices = 2}), std::logic_error);
}

TEST_CASE("evaluate: stages may differ") {
  PipelineShape shape = {.ranks = 2, .microbatches = 2};
  shape.stage_times = {{}, {.forward = 10, .backward = 20}};
  // rank 1: F0 1-11, B0 11-31, F1 31-41, B1 41-61; rank 0: B1 61-63.
  CHECK(evaluate(two_ranks, shape).makespan == 63);
}

TEST_CASE("evaluate: ranks that wait for each other are our bug, with the ops at which they stand") {
  Schedule deadlock = two_ranks;
  std::swap(deadlock[0][1], deadlock[0][2]);  // 0F0 0B0 0F1
  std::swap(deadlock[1][1], deadlock[1][2]);  // 1F0 1F1 1B0
  CHECK_THROWS_WITH(evaluate(deadlock, {.ranks = 2, .microbatches = 2}),
                    "the ranks of a schedule wait for each other: rank 0 at 0B0, rank 1 at 1F1");
}

TEST_CASE("evaluate: for every named schedule, busy and idle time fill the ranks, and its own check passes",
          "[long]") {
  for (const ScheduleEntry& entry : pipeline_schedules())
    for (const int ranks : {1, 2, 4})
      for (const int microbatches : {1, 4, 8}) {
        PipelineShape shape = {.ranks = ranks,
                               .virtual_stages = entry.default_virtual_stages,
                               .microbatches = microbatches,
                               .times = {2, 4, 3, 1, 6, 1}};
        if (!entry.refusal(shape).empty()) continue;
        CAPTURE(entry.name, ranks, microbatches);
        const Schedule schedule = entry.build(shape);
        CHECK(check_schedule(schedule, shape).empty());
        const ScheduleTimes times = evaluate(schedule, shape);
        const auto idle = std::accumulate(times.idle.begin(), times.idle.end(), std::int64_t{0});
        const std::int64_t forwards = std::int64_t{microbatches} * entry.default_virtual_stages;
        const std::int64_t work = ranks * forwards * (2 + 4);
        CHECK(idle + work == ranks * times.makespan);
        CHECK(times.makespan >= forwards * 6);
      }
}

}  // namespace
}  // namespace simrun
