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

}  // namespace simrun
