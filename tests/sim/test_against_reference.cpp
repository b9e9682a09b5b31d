#include <catch2/catch.hpp>

#include "schedules/compile.h"
#include "sim/simulate.h"
#include "sim/stream_engine.h"
#include "tests/jobs.h"
#include "tests/sim/random_plan.h"
#include "tests/sim/reference_engine.h"

namespace simrun {

namespace {

void require_equal_to_reference(const Plan& plan) {
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

}  // namespace

TEST_CASE("the fast engine agrees with the reference engine to the picosecond") {
  for (unsigned seed = 0; seed < 600; ++seed) {
    CAPTURE(seed);
    require_equal_to_reference(random_plan(seed));
  }
}

TEST_CASE("the engines agree on compiled plans of every placement, overlapped pairs among them") {
  const std::vector<std::pair<const char*, const char*>> schedules = {
      {"dualpipe", "1"}, {"chimera", "1"}, {"dualpipe_v", "2"}, {"interleaved_1f1b_overlap", "2"},
      {"zb_v", "2"},     {"hanayo", "2"}};
  for (const auto& [schedule, virtual_stages] : schedules) {
    CAPTURE(schedule);
    require_equal_to_reference(compile(
        job_from(small_gpt(8, 2, 2, 1), {{"parallelism.pipeline_schedule", schedule},
                                         {"parallelism.virtual_pipeline_model_parallel_size", virtual_stages},
                                         {"parallelism.sequence_parallel", "true"},
                                         {"optimizer.zero_stage", "1"},
                                         {"optimizer.overlap_grad_reduce", "true"},
                                         {"training.global_batch_size", "16"}})));
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
