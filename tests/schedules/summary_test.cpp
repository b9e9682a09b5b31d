#include "schedules/summary.h"

#include <catch2/catch.hpp>
#include <stdexcept>

#include "two_stage_plan.h"

namespace simrun {
namespace {

constexpr Picoseconds second = 1'000'000'000'000;

// Step of 10 s. Rank 0 (2 GPUs): 6 s compute, 1 s exposed data, 3 s bubble; rank 1 (2 GPUs): 8 s compute, 2 s
// bubble.
Timeline two_stage_timeline() {
  Timeline timeline;
  timeline.step = 10 * second;
  timeline.first_step = 9 * second;
  timeline.engine = "fast";
  RankTimeline first;
  first.multiplicity = 2;
  first.totals.compute = 6 * second;
  first.totals.exposed[static_cast<std::size_t>(Traffic::data)] = 1 * second;
  first.totals.bubble = {1 * second, 0, 2 * second, 0};
  first.totals.hidden[static_cast<std::size_t>(Traffic::pipeline)] = 4 * second;
  first.peak.bytes = 79'000'000'000;
  first.peak.live = {78'000'000'000, 0, 0, 1'000'000'000, 0, 0};
  RankTimeline second_rank;
  second_rank.pipeline_rank = 1;
  second_rank.multiplicity = 2;
  second_rank.totals.compute = 8 * second;
  second_rank.totals.bubble = {2 * second, 0, 0, 0};
  second_rank.peak.bytes = 5;
  second_rank.peak.live = {5, 0, 0, 0, 0, 0};
  timeline.ranks = {first, second_rank};
  return timeline;
}

Plan plan_with_flops() {
  Plan plan = two_stage_plan();
  plan.job.model_flops_per_step = 2e16;
  plan.job.hardware_flops_per_step = 3e16;
  return plan;
}

}  // namespace

TEST_CASE("compute, bubble and exposed communication are means over GPUs and sum to the step") {
  const Summary summary = summarize(plan_with_flops(), two_stage_timeline());
  CHECK(summary.step_time_s == Approx(10));
  CHECK(summary.first_step_s == Approx(9));
  CHECK(summary.compute_s == Approx(7));         // (2 x 6 + 2 x 8) / 4
  CHECK(summary.bubble_s == Approx(2.5));        // (2 x 3 + 2 x 2) / 4
  CHECK(summary.exposed_comm_s == Approx(0.5));  // (2 x 1) / 4
  CHECK(summary.hidden_comm_s == Approx(2));     // (2 x 4) / 4
  CHECK(summary.bubble_fraction == Approx(0.25));
  CHECK(summary.bubble_by_cause_s[static_cast<std::size_t>(BubbleCause::warm_up)] == Approx(1.5));
  CHECK(summary.bubble_by_cause_s[static_cast<std::size_t>(BubbleCause::drain)] == Approx(1));
  CHECK(summary.exposed_by_traffic_s[static_cast<std::size_t>(Traffic::data)] == Approx(0.5));
  CHECK(summary.hidden_by_traffic_s[static_cast<std::size_t>(Traffic::pipeline)] == Approx(2));
  CHECK(summary.compute_s + summary.bubble_s + summary.exposed_comm_s == Approx(summary.step_time_s));
}

TEST_CASE("means weigh each recorded rank by the GPUs that it stands for") {
  Timeline timeline = two_stage_timeline();
  timeline.ranks[1].multiplicity = 6;
  CHECK(summarize(plan_with_flops(), timeline).compute_s == Approx(7.5));  // (2 x 6 + 6 x 8) / 8
}

TEST_CASE(
    "GPUs of one pipeline rank that differ are weighed by how many they are; the worst one's peak counts") {
  Timeline timeline = two_stage_timeline();  // pp 0: 2 GPUs compute 6 s, pp 1: 2 GPUs compute 8 s
  RankTimeline other = timeline.ranks[0];
  other.device = 2;
  other.multiplicity = 6;
  other.totals.compute = 4 * second;
  other.totals.exposed[static_cast<std::size_t>(Traffic::data)] = 3 * second;
  other.peak.bytes = 79'500'000'000;
  timeline.ranks.insert(timeline.ranks.begin() + 1, other);
  const Summary summary = summarize(plan_with_flops(), timeline);
  CHECK(summary.compute_s == Approx(5.2));     // (2 x 6 + 6 x 4 + 2 x 8) / 10
  CHECK(summary.exposed_comm_s == Approx(2));  // (2 x 1 + 6 x 3) / 10
  CHECK(summary.compute_s + summary.bubble_s + summary.exposed_comm_s == Approx(10));
  REQUIRE(summary.stages.size() == 2);
  const StageSummary& stage = summary.stages[0];
  CHECK(stage.gpus == 8);
  CHECK(stage.compute_s == Approx(4.5));       // (2 x 6 + 6 x 4) / 8
  CHECK(stage.exposed_comm_s == Approx(2.5));  // (2 x 1 + 6 x 3) / 8
  CHECK(stage.exposed_by_traffic_s[static_cast<std::size_t>(Traffic::data)] == Approx(2.5));
  CHECK(stage.bubble_by_cause_s[static_cast<std::size_t>(BubbleCause::warm_up)] == Approx(1));
  CHECK(stage.hidden_by_traffic_s[static_cast<std::size_t>(Traffic::pipeline)] == Approx(4));
  CHECK(stage.peak_memory_bytes == 79'500'000'000);
  CHECK(summary.stages[1].compute_s == Approx(8));
  CHECK(summary.peak_memory_bytes == 79'500'000'000);
  CHECK(fullest_gpu(timeline, 0).device == 2);
  CHECK(fullest_gpu(timeline, 1).pipeline_rank == 1);  // not timeline.ranks[1]
  CHECK_THROWS_AS(fullest_gpu(timeline, 2), std::out_of_range);
}

TEST_CASE("a pipeline rank has its busiest and its idlest GPU, the first of equals") {
  Timeline timeline = two_stage_timeline();
  CHECK_FALSE(summarize(plan_with_flops(), timeline).stages[0].has_imbalance());
  timeline.ranks[0].multiplicity = 1;
  RankTimeline quick = timeline.ranks[0];
  quick.device = 1;
  quick.totals.compute = 2 * second;
  quick.totals.bubble[static_cast<std::size_t>(BubbleCause::imbalance)] = 4 * second;
  timeline.ranks.insert(timeline.ranks.begin() + 1, quick);
  const StageSummary stage = summarize(plan_with_flops(), timeline).stages[0];
  CHECK(stage.compute_s == Approx(4));  // (6 + 2) / 2
  CHECK(stage.bubble_s == Approx(5));   // (3 + 7) / 2
  REQUIRE(stage.has_imbalance());
  CHECK(stage.busiest.gpu == 0);
  CHECK(stage.busiest.compute_s == Approx(6));
  CHECK(stage.idlest.gpu == 1);
  CHECK(stage.idlest.compute_s == Approx(2));
  CHECK(stage.idlest.bubble_s == Approx(7));
  CHECK(stage.idlest.exposed_comm_s == Approx(1));
}

TEST_CASE("links keep their order; their times become shares of the step") {
  Timeline timeline = two_stage_timeline();  // 10 s
  timeline.engine_reason = "asked for";
  timeline.contention_bound = 0.03;
  timeline.links = {{"node0.nic0.tx", 50e9, 4, 100'000'000'000, 5 * second, 2 * second, {}},
                    {"node0.gpu0.nvlink_tx", 0, 1, 0, 0, 0, {}}};
  const Summary summary = summarize(plan_with_flops(), timeline);
  CHECK(summary.engine_reason == "asked for");
  CHECK(summary.contention_bound == 0.03);
  REQUIRE(summary.links.size() == 2);
  const LinkSummary& nic = summary.links[0];
  CHECK(nic.name == "node0.nic0.tx");
  CHECK(nic.multiplicity == 4);
  CHECK(nic.bandwidth == 50e9);
  CHECK(nic.bytes == 100'000'000'000);
  CHECK(nic.busy_fraction == Approx(0.5));
  CHECK(nic.contended_s == Approx(2));
  CHECK(nic.mean_utilisation == Approx(0.2));  // 100 GB / (50 GB/s x 10 s)
  CHECK(summary.links[1].mean_utilisation == 0);
}

TEST_CASE("links with equal figures are one, whether or not their use over time is apart") {
  Timeline timeline = two_stage_timeline();
  const LinkTimeline tx{"node1.nic0.tx", 50e9, 2, 1000, second, 0, {0.5F}};
  LinkTimeline other = tx, rx = tx;
  other.name = "node0.nic0.tx";
  other.multiplicity = 3;
  other.utilisation = {0.25F};
  rx.name = "node0.nic0.rx";  // another kind
  timeline.links = {tx, other, rx};
  const Summary summary = summarize(two_stage_plan(), timeline);
  REQUIRE(summary.links.size() == 2);
  CHECK(summary.links[0].name == "node0.nic0.tx");
  CHECK(summary.links[0].multiplicity == 5);
  CHECK(summary.links[1].multiplicity == 2);
}

TEST_CASE("rates divide by the step, the GPUs and the dense peak of the precision") {
  const Summary summary = summarize(plan_with_flops(), two_stage_timeline());
  CHECK(summary.ranks == 4);
  CHECK(summary.tokens_per_s == Approx(2.4));  // 24 tokens / 10 s
  CHECK(summary.tokens_per_s_per_gpu == Approx(0.6));
  CHECK(summary.model_tflops_per_gpu == Approx(500));  // 2e16 / (10 s x 4) = 5e14
  CHECK(summary.hardware_tflops_per_gpu == Approx(750));
  CHECK(summary.mfu == Approx(0.5));  // 5e14 / 1e15
  CHECK(summary.hfu == Approx(0.75));
}

TEST_CASE("peak memory is that of the worst rank, and fits below what is kept free") {
  Timeline timeline = two_stage_timeline();
  Summary summary = summarize(plan_with_flops(), timeline);
  CHECK(summary.peak_memory_bytes == 79'000'000'000);
  CHECK(summary.peak_pipeline_rank == 0);
  CHECK(summary.memory_limit_bytes == 79'000'000'000);  // 80e9 - 1e9
  CHECK(summary.fits);
  timeline.ranks[1].peak.bytes = 79'000'000'001;
  summary = summarize(plan_with_flops(), timeline);
  CHECK(summary.peak_pipeline_rank == 1);
  CHECK_FALSE(summary.fits);
}

TEST_CASE("each pipeline rank has its share of the model, its times and its peak") {
  const Summary summary = summarize(plan_with_flops(), two_stage_timeline());
  REQUIRE(summary.stages.size() == 2);
  CHECK(summary.stages[0].embedding);
  CHECK_FALSE(summary.stages[0].loss);
  CHECK(summary.stages[1].loss);
  CHECK(summary.stages[1].pipeline_rank == 1);
  CHECK(summary.stages[0].layers == 1);
  CHECK(summary.stages[0].parameters == 16);
  CHECK(summary.stages[0].compute_s == Approx(6));
  CHECK(summary.stages[0].bubble_s == Approx(3));
  CHECK(summary.stages[0].exposed_comm_s == Approx(1));
  CHECK(summary.stages[0].memory[static_cast<std::size_t>(Category::activations)] == 1'000'000'000);
}

TEST_CASE("nothing is divided by zero") {
  const Summary summary = summarize(Plan{}, Timeline{});
  CHECK(summary.bubble_fraction == 0);
  CHECK(summary.mfu == 0);
  CHECK(summary.tokens_per_s_per_gpu == 0);
  Plan plan = plan_with_flops();
  plan.job.precision = Dtype::fp8;  // not among the device's peaks
  CHECK(summarize(plan, two_stage_timeline()).mfu == 0);
}

}  // namespace simrun
