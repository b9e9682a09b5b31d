// What the step's length is made of.
#include <catch2/catch.hpp>
#include <string>

#include "schedules/critical_path.h"
#include "sim/simulate.h"
#include "tests/sim/plan_builder.h"
#include "tests/sim/random_plan.h"

namespace simrun {
namespace {

Timeline recorded(const Plan& plan) {
  return simulate(plan, {.detail = Detail::instructions, .engine = EngineChoice::fast});
}

// "rank.stream start+duration", with "(gap)" in front where there is one.
std::string text_of(const CriticalPath& path, const Timeline& timeline) {
  std::string text;
  for (const CriticalStep& step : path.steps) {
    const RankTimeline& rank = timeline.ranks[step.rank];
    const Lane& lane = rank.lanes[step.lane];
    const Interval& interval = lane.intervals[step.interval];
    if (!text.empty()) text += "  ";
    if (step.gap > 0) text += "(" + std::to_string(step.gap) + ") ";
    text += std::to_string(rank.pipeline_rank) + "." + std::to_string(lane.stream) + " " +
            std::to_string(interval.start) + "+" + std::to_string(interval.duration);
  }
  return path.tail > 0 ? text + "  (" + std::to_string(path.tail) + ")" : text;
}

Picoseconds length(const CriticalPath& path, const Timeline& timeline) {
  Picoseconds sum = path.tail;
  for (const CriticalStep& step : path.steps)
    sum += step.gap + timeline.ranks[step.rank].lanes[step.lane].intervals[step.interval].duration;
  return sum;
}

// Rank 0 computes 10, sends for 2, computes `meanwhile`, and computes 6 with what comes back; rank 1 computes
// 12 in between. Without anything in between: 10 + 2 + 12 + 2 + 6 = 32.
Plan there_and_back(Picoseconds meanwhile) {
  PlanBuilder builder(2);
  const std::uint8_t out = builder.stream("out", Traffic::pipeline);
  const std::uint8_t in = builder.stream("in", Traffic::pipeline);
  const Index given = builder.token(), got = builder.token(), made = builder.token(), back = builder.token(),
              rest = builder.token();
  const auto run = [&](int rank, PassKind kind, std::vector<Instruction> instructions) {
    builder.entry(rank, builder.segment(kind, std::move(instructions)));
  };
  run(0, PassKind::forward, {builder.compute(10, {}, {given})});
  run(0, PassKind::communication, {builder.send(out, 2, given, 1, 0)});
  run(1, PassKind::communication, {builder.recv(in, 2, got, 0, 0)});
  run(1, PassKind::forward, {builder.compute(12, {got}, {made})});
  run(1, PassKind::communication, {builder.send(out, 2, made, 0, 1)});
  run(0, PassKind::communication, {builder.recv(in, 2, back, 1, 1)});
  run(0, PassKind::forward, {builder.compute(meanwhile, {}, {rest})});
  run(0, PassKind::backward, {builder.compute(6, {back, rest}, {})});
  return builder.plan;
}

}  // namespace

TEST_CASE("the critical path goes where the step's last instruction was held up, over to other ranks") {
  const Plan plan = there_and_back(5);
  const Timeline timeline = recorded(plan);
  REQUIRE(timeline.step == 32);
  // The end of a transfer that came last holds it up: the receiver has waited for the sender, twice.
  CHECK(text_of(critical_path(plan, timeline), timeline) ==
        "0.0 0+10  0.1 10+2  1.0 12+12  1.1 24+2  0.0 26+6");
}

TEST_CASE("a rank that is busy all the time is the critical path by itself") {
  const Plan plan = there_and_back(20);
  const Timeline timeline = recorded(plan);
  REQUIRE(timeline.step == 36);  // 10 + 20 + 6: what comes back at 26 is waited for by nobody
  CHECK(text_of(critical_path(plan, timeline), timeline) == "0.0 0+10  0.0 10+20  0.0 30+6");
}

TEST_CASE("time in which a collective waits for GPUs that are not recorded is a gap, as is a late end") {
  const Plan plan = there_and_back(20);
  Timeline timeline = recorded(plan);
  Interval& last = timeline.ranks[0].lanes[0].intervals.back();  // as if it were one that met at 34 only
  last.start += 4;
  last.wait = 4;
  timeline.step += 7;
  CHECK(text_of(critical_path(plan, timeline), timeline) == "0.0 0+10  0.0 10+20  (4) 0.0 34+6  (3)");
}

TEST_CASE("nothing recorded, no path") {
  const Plan plan = there_and_back(20);
  CHECK(critical_path(plan, simulate(plan, {Detail::totals, EngineChoice::fast})).steps.empty());
}

TEST_CASE("every moment of a random plan's step is explained by what was recorded") {
  for (unsigned seed = 0; seed < 60; ++seed) {
    const Plan plan = random_plan(seed);
    const Timeline timeline = recorded(plan);
    const CriticalPath path = critical_path(plan, timeline);
    CAPTURE(seed, text_of(path, timeline));
    CHECK(length(path, timeline) == timeline.step);
    CHECK(path.tail == 0);
    for (const CriticalStep& step : path.steps) CHECK(step.gap == 0);
  }
}

}  // namespace simrun
