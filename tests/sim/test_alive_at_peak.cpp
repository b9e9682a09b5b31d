// What is alive at the peak is the peak, in every job.
#include <array>
#include <catch2/catch.hpp>
#include <string>

#include "schedules/alive_at_peak.h"
#include "sim/plan_job.h"
#include "sim/simulate.h"
#include "tests/jobs.h"
#include "tests/sim/plan_builder.h"

namespace simrun {
namespace {

// Of every rank of the timeline, category by category.
void check_sums(const Plan& plan) {
  for (const RankTimeline& rank : simulate(plan, {Detail::totals, EngineChoice::fast}).ranks) {
    std::array<std::int64_t, category_count> bytes{};
    for (const AliveTensors& of : alive_at_peak(plan, rank))
      bytes[static_cast<std::size_t>(of.category)] += of.bytes;
    CAPTURE(rank.pipeline_rank);
    CHECK(bytes == rank.peak.live);
  }
}

}  // namespace

TEST_CASE("alive at the peak: what one microbatch keeps and another has freed") {
  PlanBuilder builder(1);
  const Index kept = builder.buffer(100), passing = builder.buffer(30);
  const Index forward = builder.segment(
      PassKind::forward,
      {builder.compute(1, {}, {kept}), builder.compute(1, {kept}, {passing}), PlanBuilder::free({passing})});
  const Index backward =
      builder.segment(PassKind::backward, {builder.compute(1, {kept}, {}), PlanBuilder::free({kept})});
  for (const int m : {0, 1}) builder.entry(0, forward, m);
  for (const int m : {0, 1}) builder.entry(0, backward, m);
  const RankTimeline rank = simulate(builder.plan, {Detail::totals, EngineChoice::fast}).ranks[0];
  std::int64_t instances_of_100 = 0, instances_of_30 = 0;
  for (const AliveTensors& of : alive_at_peak(builder.plan, rank)) {
    if (of.bytes == 100 * of.instances) instances_of_100 += of.instances;
    if (of.bytes == 30 * of.instances) instances_of_30 += of.instances;
  }
  CHECK(instances_of_100 == 2);  // of both microbatches, while the second one's 30 bytes are there
  CHECK(instances_of_30 == 1);
  check_sums(builder.plan);
}

TEST_CASE("alive at the peak: the categories' sums are those of the peak, in jobs of every kind") {
  for (const char* schedule : {"gpipe", "1f1b", "zb_h1"}) {
    CAPTURE(schedule);
    check_sums(plan_job(job_from(small_gpt(2, 4, 2, 2), {{"parallelism.pipeline_schedule", schedule}})));
  }
  check_sums(plan_job(job_from(small_gpt(2, 4, 2, 2), {{"optimizer.zero_stage", "3"}})));
}

}  // namespace simrun
