#include <catch2/catch.hpp>

#include "sim/simulate.h"
#include "sim/stream_engine.h"
#include "tests/sim/random_plan.h"
#include "tests/sim/reference_engine.h"

namespace simrun {

TEST_CASE("the fast engine agrees with the reference engine to the picosecond") {
  for (unsigned seed = 0; seed < 600; ++seed) {
    CAPTURE(seed);
    const Plan plan = random_plan(seed);
    const ReferenceRun reference = reference_run(plan);
    const Timeline timeline = simulate(plan, {Detail::instructions});
    REQUIRE(timeline.step == reference.step);
    std::size_t intervals = 0;
    for (std::size_t r = 0; r < timeline.ranks.size(); ++r) {
      const RankTimeline& rank = timeline.ranks[r];
      for (const Lane& lane : rank.lanes)
        for (const Interval& i : lane.intervals) {
          ++intervals;
          CAPTURE(r, lane.stream, i.entry, i.instruction);
          const std::pair expected = reference.times.at({r, i.entry, i.instruction});
          REQUIRE(std::pair(i.start, i.duration) == expected);
        }
      CAPTURE(r);
      const RankTotals& totals = rank.totals;
      REQUIRE(totals.compute == reference.totals[r].compute);
      REQUIRE(totals.exposed == reference.totals[r].exposed);
      REQUIRE(totals.bubble == reference.totals[r].bubble);
      REQUIRE(totals.hidden == reference.totals[r].hidden);
      REQUIRE(totals.compute + totals.exposed_total() + totals.bubble_total() == timeline.step);
    }
    REQUIRE(intervals == reference.times.size());
    REQUIRE(timeline.instructions == static_cast<std::int64_t>(intervals));
    // Recording changes nothing.
    const Timeline totals_only = simulate(plan);
    for (std::size_t r = 0; r < timeline.ranks.size(); ++r)
      REQUIRE(totals_only.ranks[r].totals == timeline.ranks[r].totals);
  }
}

TEST_CASE("a plan of which every GPU is instantiated takes the times of its representatives") {
  for (unsigned seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    const Plan plan = random_plan(seed);
    Durations durations(plan);
    const CompiledPlan compiled = compile_programs(plan, WhichStep::steady, durations);
    REQUIRE(durations.uniform());
    const Meetings meetings = find_meetings(plan, compiled, Instantiation::every_gpu, durations);
    const EngineRun run = run_streams({plan, compiled, meetings, Detail::instructions, {}, nullptr});
    const Timeline folded = simulate(plan, {Detail::instructions});
    REQUIRE(run.step == folded.step);
    REQUIRE(run.instructions == 2 * folded.instructions);  // two GPUs per rank
    REQUIRE(run.ranks.size() == folded.ranks.size());
    for (std::size_t r = 0; r < run.ranks.size(); ++r) {
      REQUIRE(run.ranks[r].multiplicity == 2);
      REQUIRE(run.ranks[r].totals == folded.ranks[r].totals);
      REQUIRE(run.ranks[r].lanes == folded.ranks[r].lanes);
      REQUIRE(run.ranks[r].passes == folded.ranks[r].passes);
    }
  }
}

}  // namespace simrun
