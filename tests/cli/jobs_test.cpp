#include "tests/jobs.h"

#include <catch2/catch.hpp>
#include <numeric>
#include <random>

#include "schedules/compile.h"
#include "schedules/lint.h"
#include "schedules/summary.h"
#include "sim/simulate.h"
#include "visualizer/json.h"
#include "visualizer/page.h"

namespace simrun {
namespace {

using Overrides = std::vector<Override>;

Overrides random_overrides(std::mt19937& random) {
  const auto pick = [&](std::initializer_list<const char*> values) {
    return *(values.begin() + random() % values.size());
  };
  const std::string pp = pick({"1", "2", "4"});
  const std::string vp = pp == "1" ? "1" : pick({"1", "2"});
  const std::string tp = pick({"1", "2", "4"});
  const std::string zero = pick({"0", "1"});
  const std::string overlap = pick({"true", "false"});
  return {{"parallelism.tensor_model_parallel_size", tp},
          {"parallelism.pipeline_model_parallel_size", pp},
          {"parallelism.virtual_pipeline_model_parallel_size", vp},
          {"parallelism.pipeline_schedule", vp == "2" ? "interleaved_1f1b" : pick({"gpipe", "1f1b"})},
          {"parallelism.sequence_parallel", tp == "1" ? "false" : pick({"true", "false"})},
          {"optimizer.zero_stage", zero},
          {"optimizer.overlap_grad_reduce", overlap},
          {"optimizer.overlap_param_gather",
           zero == "1" && overlap == "true" ? pick({"true", "false"}) : "false"},
          {"optimizer.bucket_size", pick({"1", "3000000", "40000000"})},
          {"training.attention", pick({"flash", "unfused"})},
          {"training.precision", pick({"bf16", "fp32"})},
          {"recompute", pick({"{granularity: none}", "{granularity: selective}",
                              "{granularity: selective, modules: [mlp, layernorm]}", "{granularity: full}",
                              "{granularity: full, method: block, num_layers: 1}"})}};
}

std::string describe(const Overrides& overrides) {
  std::string text;
  for (const Override& o : overrides) text += o.key + "=" + o.value + " ";
  return text;
}

void check_totals(const Plan& plan, const Timeline& timeline) {
  for (const RankTimeline& rank : timeline.ranks) {
    CHECK(rank.totals.compute + rank.totals.exposed_total() + rank.totals.bubble_total() == timeline.step);
    CHECK(std::accumulate(rank.peak.live.begin(), rank.peak.live.end(), std::int64_t{0}) == rank.peak.bytes);
  }
  const Summary summary = summarize(plan, timeline);
  CHECK(summary.compute_s + summary.bubble_s + summary.exposed_comm_s ==
        Approx(summary.step_time_s).epsilon(1e-12));
  CHECK(summary.hardware_flops_per_step >= summary.model_flops_per_step * (1 - 1e-12));
  CHECK(summary.mfu < 1);
}

TEST_CASE("jobs: compute, bubble and exposed communication sum to the step on every rank of every strategy",
          "[long]") {
  std::mt19937 random(20260101);
  for (int n = 0; n < 150; ++n) {
    const Overrides overrides = random_overrides(random);
    CAPTURE(n, describe(overrides));
    const Plan plan = compile(job_from(small_gpt(8, 1, 1, 2), overrides));
    REQUIRE(lint(plan) == std::vector<std::string>{});
    check_totals(plan, simulate(plan));
  }
}

TEST_CASE("jobs: recording changes nothing, and the bytes of page and JSON repeat", "[long]") {
  for (const char* name : {"llama3-70b-64xh100", "tiny-4xa100"}) {
    const Plan plan = compile(preset_job(name));
    const Timeline totals = simulate(plan);
    const Timeline recorded = simulate(plan, {Detail::instructions});
    CAPTURE(name);
    CHECK(totals.step == recorded.step);
    CHECK(totals.first_step == recorded.first_step);
    CHECK(summary_json(plan, summarize(plan, totals)) == summary_json(plan, summarize(plan, recorded)));
    for (std::size_t r = 0; r < totals.ranks.size(); ++r) {
      CHECK(totals.ranks[r].totals == recorded.ranks[r].totals);
      CHECK(totals.ranks[r].peak == recorded.ranks[r].peak);
    }
    const Timeline again = simulate(plan, {Detail::instructions});
    CHECK(html_page(plan, recorded, summarize(plan, recorded)) ==
          html_page(plan, again, summarize(plan, again)));
  }
}

TEST_CASE("jobs: the page of the 70B job stays under 2 MB") {
  const Plan plan = compile(preset_job("llama3-70b-64xh100"));
  const Timeline timeline = simulate(plan, {Detail::instructions});
  CHECK(html_page(plan, timeline, summarize(plan, timeline)).size() < 2'000'000);
}

double step_of(const std::string& yaml, const Overrides& overrides) {
  const Plan plan = compile(job_from(yaml, overrides));
  return summarize(plan, simulate(plan)).step_time_s;
}

std::int64_t peak_of(const std::string& yaml, const Overrides& overrides) {
  const Plan plan = compile(job_from(yaml, overrides));
  return summarize(plan, simulate(plan)).peak_memory_bytes;
}

TEST_CASE("jobs: what costs time and what saves memory") {
  const std::string yaml = small_gpt(8, 4, 2, 2);
  const Override full{"recompute", "{granularity: full}"}, selective{"recompute", "{granularity: selective}"};
  CHECK(step_of(yaml, {full}) > step_of(yaml, {selective}));
  CHECK(step_of(yaml, {selective}) > step_of(yaml, {}));
  CHECK(peak_of(yaml, {full}) < peak_of(yaml, {selective}));
  CHECK(peak_of(yaml, {selective}) < peak_of(yaml, {}));
  CHECK(peak_of(yaml, {{"optimizer.zero_stage", "1"}}) < peak_of(yaml, {}));
  CHECK(peak_of(yaml, {{"parallelism.sequence_parallel", "true"}}) < peak_of(yaml, {}));
  CHECK(step_of(yaml, {{"cluster.intra_node", "{bandwidth: 600 GB/s}"}}) < step_of(yaml, {}));
  CHECK(peak_of(yaml, {{"parallelism.pipeline_schedule", "gpipe"}}) > peak_of(yaml, {}));
  CHECK(step_of(yaml, {{"training.attention", "flash"}}) < step_of(yaml, {}));
}

TEST_CASE("jobs: gradient reduction overlaps with the last backward pass only if asked to") {
  const std::string yaml = small_gpt(8, 1, 1, 2);
  const Overrides late{{"optimizer.overlap_grad_reduce", "false"}};
  const Overrides overlapped{{"optimizer.overlap_grad_reduce", "true"}, {"optimizer.bucket_size", "1000000"}};
  CHECK(step_of(yaml, overlapped) < step_of(yaml, late));
}

}  // namespace
}  // namespace simrun
