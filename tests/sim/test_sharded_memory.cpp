#include <algorithm>
#include <array>
#include <catch2/catch.hpp>

#include "schedules/compile.h"
#include "sim/memory.h"
#include "sim/simulate.h"
#include "tests/jobs.h"

// What ZeRO-3's ways to keep weights and gradients hold at most: the price of the traffic that they save.
namespace simrun {
namespace {

// 4 layers on 8 data-parallel ranks, 4 microbatches; no gather ahead of its layer.
Plan plan_with(std::vector<Override> overrides) {
  overrides.push_back({"optimizer.zero_stage", "3"});
  overrides.push_back({"optimizer.overlap_param_gather", "false"});
  return compile(job_from(small_gpt(4, 1, 1, 1), overrides));
}

// Padded elements of all buckets, and of the largest.
struct Elements {
  std::int64_t all = 0, largest = 0;
};
Elements bucket_elements(const Plan& plan) {
  Elements elements;
  for (const Buffer& buffer : plan.buffers)
    if (buffer.parent == no_index && buffer.name.ends_with(" weights") &&
        buffer.category == Category::weights) {
      elements.all += buffer.elements();
      elements.largest = std::max(elements.largest, buffer.elements());
    }
  return elements;
}

LiveBytes peak(const Plan& plan) { return simulate(plan).ranks[0].peak.live; }
std::size_t number(Category category) { return static_cast<std::size_t>(category); }

}  // namespace

TEST_CASE("weights kept through the step take 2 bytes per parameter more than their shards") {
  const Plan always = plan_with({});
  const auto [all, largest] = bucket_elements(always);
  // fp16: an eighth of everything, and the unit that is being read: the embeddings with the tied head.
  CHECK(peak(always)[number(Category::weights)] == 2 * all / 8 + 2 * largest);
  const std::vector<Override> to_backward = {{"optimizer.reshard_after_forward", "false"}};
  std::vector<Override> all_step = to_backward;
  all_step.push_back({"optimizer.reshard_after_backward", "false"});
  for (const auto& kept : {to_backward, all_step})
    CHECK(peak(plan_with(kept))[number(Category::weights)] == 2 * all / 8 + 2 * all);
}

TEST_CASE("no_sync keeps 4 bytes per parameter of unsharded gradients from the first microbatch on") {
  const Plan once = plan_with({{"optimizer.no_sync", "true"}});
  const std::int64_t all = bucket_elements(once).all;
  CHECK(peak(once)[number(Category::gradients)] == 4 * all / 8 + 4 * all);
}

TEST_CASE("with free memory, weights kept through the step make it shorter by their gathers") {
  const Picoseconds always = simulate(plan_with({})).step;
  const Picoseconds kept = simulate(plan_with({{"optimizer.reshard_after_forward", "false"},
                                               {"optimizer.reshard_after_backward", "false"},
                                               {"optimizer.no_sync", "true"}}))
                               .step;
  CHECK(kept < always);
}

namespace {

// Of the fullest rank, GPT of 16 layers on 4 stages and 8 data-parallel ranks, in buckets of less than a
// layer.
std::int64_t fullest(const std::string& schedule, const std::vector<Override>& more) {
  std::vector<Override> overrides = {{"parallelism.pipeline_schedule", schedule},
                                     {"training.micro_batch_size", "1"},
                                     {"training.global_batch_size", "64"},
                                     {"model.vocab_size", "2048"},
                                     {"model.untie_embeddings_and_output_weights", "true"},
                                     {"optimizer.bucket_size", "1000000"}};
  if (schedule == "zb_v" || schedule.starts_with("interleaved"))
    overrides.push_back({"parallelism.virtual_pipeline_model_parallel_size", "2"});
  overrides.insert(overrides.end(), more.begin(), more.end());
  const Timeline timeline = simulate(compile(job_from(small_gpt(16, 1, 4, 4), overrides)));
  return std::ranges::max_element(timeline.ranks, {}, [](const RankTimeline& of) { return of.peak.bytes; })
      ->peak.bytes;
}

constexpr std::array schedules = {"1f1b", "interleaved_1f1b", "zb_h1", "zb_h2", "zb_v", "interleaved_zb"};

}  // namespace

TEST_CASE("no ZeRO stage takes more memory than the one before it, whatever is divided") {
  for (const char* schedule : schedules) {
    std::int64_t before = fullest(schedule, {{"optimizer.zero_stage", "0"}});
    for (const char* stage : {"1", "2", "3"}) {
      CAPTURE(schedule, stage);
      const std::int64_t now = fullest(schedule, {{"optimizer.zero_stage", stage}});
      CHECK(now < before);
      before = now;
    }
  }
}

TEST_CASE("what runs layers again takes no more memory than what keeps them, whatever is divided") {
  for (const char* schedule : schedules) {
    CAPTURE(schedule);
    CHECK(fullest(schedule, {{"recompute.granularity", "full"}}) < fullest(schedule, {}));
  }
}

}  // namespace simrun
