#include <algorithm>
#include <catch2/catch.hpp>

#include "every_order.h"
#include "schedules/evaluate_schedule.h"
#include "schedules/schedule_search.h"

namespace simrun {
namespace {

PassTimes pass_times(int forward, int input, int weight, int communication) {
  PassTimes times;
  times.forward = forward;
  times.backward_input = input;
  times.backward_weight = weight;
  times.backward = input + weight;
  times.overlapped = forward + input + weight;
  times.communication = communication;
  return times;
}

const std::vector<PassTimes>& tiny_times() {
  static const std::vector<PassTimes> times = {pass_times(1, 1, 1, 0), pass_times(2, 3, 1, 0),
                                               pass_times(1, 1, 1, 1), pass_times(1, 2, 3, 2),
                                               pass_times(3, 1, 2, 1)};
  return times;
}

struct TinyShape {
  int ranks, virtual_stages, microbatches, memory_limit;
  Placement placement;
};

// Of all times: how often the bound and the search meet the shortest makespan of every order.
struct Tally {
  int shapes = 0, bound_met = 0, search_met = 0;
};

void compare(const TinyShape& tiny, const EveryOrder& options, const std::vector<PassTimes>& all_times,
             Tally& tally) {
  PipelineShape shape;
  shape.ranks = tiny.ranks;
  shape.virtual_stages = tiny.virtual_stages;
  shape.microbatches = tiny.microbatches;
  shape.memory_limit = tiny.memory_limit;
  for (const PassTimes& times : all_times) {
    shape.times = times;
    CAPTURE(tiny.ranks, tiny.virtual_stages, tiny.microbatches, tiny.memory_limit, times.forward,
            times.backward_input, times.backward_weight, times.communication);
    const std::int64_t shortest = shortest_makespan(shape, options);
    const std::int64_t bound = makespan_lower_bound(shape, tiny.placement);
    CHECK(bound <= shortest);
    const SearchOptions search = {
        .placement = tiny.placement, .split_backward = options.split, .named_seeds = false, .effort = 20'000};
    const SearchResult found = search_schedule(shape, search);
    CHECK(found.makespan >= shortest);
    ++tally.shapes;
    tally.bound_met += bound == shortest ? 1 : 0;
    tally.search_met += found.makespan == shortest ? 1 : 0;
  }
}

}  // namespace

TEST_CASE("bound: the last rank starts behind the forwards before it and then works without a gap") {
  // F = I = W = 1: rank 1 of 2 starts at 1 and has 4 x 3 to do; so has rank 3 of 4, behind 3 forwards.
  PipelineShape shape = {.ranks = 2, .microbatches = 4};
  CHECK(makespan_lower_bound(shape, Placement::loop) == 1 + 4 * 3);
  shape.ranks = 4;
  shape.microbatches = 8;
  CHECK(makespan_lower_bound(shape, Placement::loop) == 3 + 8 * 3);
}

TEST_CASE("bound: the memory limit costs the first rank time before its first I and behind its last F") {
  // F, I, W = 2, 3, 1; 4 ranks, 8 microbatches, at most 4 alive. Rank 0 has its first gradient after
  // 4 x 2 + 3 x 3 = 17 and can run 4 x 2 until then: it idles 9. Behind its last F it waits 3 x (2 + 3) = 15
  // and is not done until I + W = 4 later; it can run the I and W of 4 alive microbatches, 16: it idles 3.
  PipelineShape shape = {.ranks = 4, .microbatches = 8};
  shape.times = pass_times(2, 3, 1, 0);
  shape.memory_limit = 4;
  CHECK(makespan_lower_bound(shape, Placement::loop) == 9 + 8 * 6 + 3);
  CHECK(evaluate(zb_auto(shape), shape).makespan == 60);
}

TEST_CASE("bound: with one activation at a time microbatches pass one by one") {
  // Each holds rank 0 for F, the round trip of 3 x (1 + 1), I and W: 9; the last W ends that.
  PipelineShape shape = {.ranks = 4, .microbatches = 5};
  shape.memory_limit = 1;
  CHECK(makespan_lower_bound(shape, Placement::loop) == 5 * 9);
  CHECK(evaluate(zb_auto(shape), shape).makespan == 5 * 9);
}

TEST_CASE("bound: a whole backward that is faster than its halves counts") {
  PipelineShape shape = {.ranks = 1, .microbatches = 3};
  shape.times.backward = 1;  // I + W = 2
  CHECK(makespan_lower_bound(shape, Placement::loop) == 3 * (1 + 1));
  CHECK(search_schedule(shape, {}).makespan == 6);
}

TEST_CASE("bound: an overlapped pair that is faster than its halves counts") {
  // F, I, W = 2, 2, 2; a pair takes 4. Rank 1 starts at 2, works 24 x 4 at least, and behind its last
  // backward rank 0 has one of 4 - 2 or more.
  PipelineShape shape = {.ranks = 2, .microbatches = 24};
  shape.times = pass_times(2, 2, 2, 0);
  shape.times.overlapped = 4;
  CHECK(makespan_lower_bound(shape, Placement::loop) == 2 + 24 * 4 + 2);
  // Pairs take less than the 24 x 2 x 6 of work that they would be one after the other.
  PipelineShape two = {.ranks = 2, .virtual_stages = 2, .microbatches = 24};
  two.times = pass_times(2, 2, 2, 0);
  two.times.overlapped = 4;
  const ScheduleTimes times = evaluate(find_schedule("interleaved_1f1b_overlap")->build(two), two);
  CHECK(times.makespan < 48 * 6);
  CHECK(makespan_lower_bound(two, Placement::loop) <= times.makespan);
}

TEST_CASE("no order of any tiny pipeline beats the bound, and the search finds the shortest", "[long]") {
  Tally tally;
  for (const TinyShape& tiny : std::vector<TinyShape>{{1, 1, 3, 0, Placement::loop},
                                                      {2, 1, 1, 0, Placement::loop},
                                                      {2, 1, 2, 1, Placement::loop},
                                                      {2, 1, 2, 0, Placement::loop},
                                                      {2, 1, 3, 2, Placement::loop},
                                                      {2, 1, 3, 0, Placement::loop},
                                                      {2, 1, 4, 2, Placement::loop},
                                                      {3, 1, 2, 0, Placement::loop},
                                                      {3, 1, 3, 1, Placement::loop},
                                                      {3, 1, 3, 2, Placement::loop},
                                                      {2, 2, 1, 2, Placement::loop},
                                                      {1, 2, 2, 2, Placement::wave},
                                                      {2, 2, 1, 0, Placement::wave},
                                                      {2, 1, 2, 0, Placement::bidirectional},
                                                      {3, 1, 2, 0, Placement::bidirectional}})
    compare(tiny, {.placement = tiny.placement}, tiny_times(), tally);
  CHECK(tally.shapes == 15 * 5);
  CHECK(tally.search_met == tally.shapes);
  CHECK(tally.bound_met == tally.shapes);
}

TEST_CASE("nor of two microbatches through two stages on each of two ranks", "[long]") {
  Tally tally;
  compare({2, 2, 2, 2, Placement::loop}, {.placement = Placement::loop}, {pass_times(1, 2, 3, 2)}, tally);
  compare({2, 2, 2, 2, Placement::wave}, {.placement = Placement::wave}, {pass_times(2, 3, 1, 0)}, tally);
  CHECK(tally.search_met == 2);
}

TEST_CASE("with whole backwards the bound holds too", "[long]") {
  Tally tally;
  for (const TinyShape& tiny : std::vector<TinyShape>{{2, 1, 3, 0, Placement::loop},
                                                      {2, 1, 4, 2, Placement::loop},
                                                      {3, 1, 3, 2, Placement::loop},
                                                      {3, 1, 4, 0, Placement::loop},
                                                      {2, 2, 2, 3, Placement::wave}})
    compare(tiny, {.placement = tiny.placement, .split = false}, tiny_times(), tally);
  CHECK(tally.search_met == tally.shapes);
}

TEST_CASE("microbatches out of turn are no shorter: the searches may take them in turn") {
  for (const PassTimes& times : tiny_times())
    for (const int limit : {1, 2}) {
      PipelineShape shape = {.ranks = 2, .microbatches = 2};
      shape.times = times;
      shape.memory_limit = limit;
      CHECK(shortest_makespan(shape, {.first_in_first_out = false}) == shortest_makespan(shape, {}));
    }
  PipelineShape three = {.ranks = 2, .microbatches = 3};
  three.times = pass_times(2, 3, 1, 1);
  three.memory_limit = 2;
  CHECK(shortest_makespan(three, {.first_in_first_out = false}) == shortest_makespan(three, {}));
}

}  // namespace simrun
