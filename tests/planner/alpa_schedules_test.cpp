#include "planner/alpa_schedules.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/jobs.h"

namespace simrun {

// A loss that takes as long as some layers, on the rank that has the first stage too.
TEST_CASE("layers are dealt to a wave's ranks by what they take, and its middle does not wait for the ends") {
  AlpaPlan plan;
  plan.pipeline = 4;
  plan.microbatches = 16;
  plan.stages = {{0, 7, {1, 1}, 7, 7, 1},
                 {7, 14, {1, 1}, 7, 7, 1},
                 {14, 20, {1, 1}, 6, 6, 1},
                 {20, 24, {1, 1}, 7, 4, 1}};
  plan.estimate_s = 27 + 15 * 7;
  RankSchedules schedules;
  const RankSchedule wave{"zb_v", 2};
  const AlpaPlan dealt = schedules.with_schedule(plan, wave, 1);
  REQUIRE(dealt.stages.size() == 8);
  std::int64_t next = 0;
  for (const AlpaStage& stage : dealt.stages) {
    CHECK(stage.first_layer == next);
    next = stage.last_layer;
  }
  CHECK(next == 24);
  const auto layers = [&](std::size_t s) { return dealt.stages[s].last_layer - dealt.stages[s].first_layer; };
  CHECK(layers(0) + layers(7) <= 5);  // (24 + 3 of the loss) / 4 = 6.75 for each rank
  for (std::size_t rank = 1; rank < 4; ++rank) CHECK(layers(rank) + layers(7 - rank) <= 7);
  CHECK(schedules.ratio(plan, wave, 1) < schedules.ratio(plan, {"zb_h1", 1}, 1));
  CHECK(schedules.ratio(plan, {"zb_h1", 1}, 1) < 1);
}

TEST_CASE("schedules are tried that the stages of a plan can be dealt to") {
  const Job job = job_from(
      "simrun: 1\nmodel: {model_type: gpt, num_layers: 8, hidden_size: 1024, num_attention_heads: 16, "
      "vocab_size: "
      "25600, max_position_embeddings: 1024}\n"
      "training: {seq_length: 1024, micro_batch_size: 1, global_batch_size: 16, precision: fp16}\n"
      "cluster: {from: aws_p3_16xlarge, nodes: 1}\n");
  AlpaPlan plan;
  plan.pipeline = 4;
  plan.microbatches = 16;
  plan.stages = {
      {0, 2, {2, 1}, 1, 1, 1}, {2, 4, {2, 1}, 1, 1, 1}, {4, 6, {2, 1}, 1, 1, 1}, {6, 8, {2, 1}, 1, 1, 1}};
  const auto tries = [&](const ScheduleLimits& limits, const RankSchedule& schedule) {
    return std::ranges::count(other_schedules(job, plan, limits), schedule) > 0;
  };
  CHECK(tries({}, {"zb_v", 2}));
  CHECK(tries({}, {"interleaved_1f1b", 2}));
  CHECK_FALSE(tries({}, {"interleaved_1f1b", 3}));  // of 8 layers
  CHECK_FALSE(tries({.names = {"zb_h1"}}, {"zb_v", 2}));
  CHECK(tries({.names = {"zb_h1"}}, {"zb_h1", 1}));
  CHECK_FALSE(tries({.virtual_stages = {1}}, {"zb_v", 2}));
  plan.zero_stage = 2;  // the word embeddings are tied
  CHECK_FALSE(tries({}, {"zb_v", 2}));
  plan.microbatches = 6;  // no rounds of four
  CHECK_FALSE(tries({}, {"interleaved_1f1b", 2}));
  plan.pipeline = 1;
  CHECK(other_schedules(job, plan, {}).empty());
}

}  // namespace simrun
