#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <utility>
#include <vector>

#include "planner/search.h"
#include "tests/planner/searches.h"

namespace simrun {

// How far estimates lie from the engine is what decides how many candidates have to be simulated.
TEST_CASE("estimates of the best are within 15 % of the engine's step and memory", "[long]") {
  for (const char* job : {"llama3-8b-8xh100", "llama3-70b-64xh100"}) {
    CAPTURE(job);
    PlanSearchResult result =
        found_untuned(base_of(job, {{"plan.best", "10"},
                                    {"plan.evaluations", "10"},
                                    {"plan.fix.tensor_model_parallel_size", "[1, 2, 8]"}}));
    REQUIRE(result.best.size() == 10);
    // The others have schedules or layers of their own, which are simulated at once.
    CHECK(std::ranges::count_if(result.best, is_estimated) >= 2);
    for (const RankedCandidate& of : result.best) {
      if (!is_estimated(of)) continue;
      CAPTURE(describe(of.candidate), of.estimate.step_s, of.evaluation.step_s);
      CHECK(std::abs(of.estimate.step_s / of.evaluation.step_s - 1) < 0.15);
      CHECK(std::abs(of.estimate.peak_bytes / static_cast<double>(of.evaluation.peak_bytes) - 1) < 0.15);
    }
  }
}

// Slower kernels, a host that is late, the clock of a step: estimates without the first lie a tenth too low.
TEST_CASE("estimates of the best under a framework are within 6 % of the engine's step", "[long]") {
  for (const char* framework : {"megatron_core", "nanotron"}) {
    const PlanSearchResult result = found_untuned(base_of(
        "llama3-8b-8xh100", {{"framework", fmt::format("{{from: {}}}", framework)}, {"plan.best", "20"}}));
    CHECK(std::ranges::count_if(result.best, is_estimated) >= 5);
    for (const RankedCandidate& of : result.best) {
      if (!is_estimated(of)) continue;
      CAPTURE(framework, describe(of.candidate), of.estimate.step_s, of.evaluation.step_s);
      CHECK(of.estimate.step_s / of.evaluation.step_s == Approx(1).margin(0.06));
    }
  }
}

// A host that issues a kernel every 80 us takes as long for two sequences as for four, and kernels of 32
// longer.
TEST_CASE("microbatches of a small model that wait for the host are estimated by their own size", "[long]") {
  const PlanSearchResult result =
      found_untuned(base_of("llama3-8b-8xh100", {{"model", "{from: qwen2.5-3b}"},
                                                 {"framework", "{from: megatron_core}"},
                                                 {"training.seq_length", "4096"},
                                                 {"training.global_batch_size", "64"},
                                                 {"plan.best", "10"}}));
  CHECK(std::ranges::count_if(result.best, is_estimated) >= 5);
  for (const RankedCandidate& of : result.best) {
    if (!is_estimated(of)) continue;
    CAPTURE(describe(of.candidate), of.estimate.step_s, of.evaluation.step_s);
    CHECK(of.estimate.step_s / of.evaluation.step_s == Approx(1).margin(0.15));
  }
}

// Of tiny-moe-8ranks some candidates have every expert on one rank only, where nothing of experts is
// gathered.
TEST_CASE("estimates of ZeRO-3 hold what is gathered: of the best, memory is within 10 % of the engine's",
          "[long]") {
  for (const char* job : {"llama3-8b-8xh100", "tiny-moe-8ranks", "llama3-70b-64xh100"}) {
    const PlanSearchResult result =
        found_untuned(base_of(job, {{"plan.best", "20"},
                                    {"plan.fix.zero_stage", "3"},
                                    {"plan.fix.tensor_model_parallel_size", "[1, 2, 8]"},
                                    {"plan.fix.pipeline_schedule", "[1f1b]"}}));
    CHECK(std::ranges::count_if(result.best, is_estimated) >= 3);
    for (const RankedCandidate& of : result.best) {
      if (!is_estimated(of)) continue;
      CAPTURE(job, describe(of.candidate), of.estimate.peak_bytes, of.evaluation.peak_bytes);
      CHECK(of.estimate.peak_bytes / static_cast<double>(of.evaluation.peak_bytes) == Approx(1).margin(0.1));
    }
  }
}

// ZB-V's stages lie there and back on the ranks, its first chunk is held longer than its second, its halves
// for weights wait in the drain, and what is split hides less.
TEST_CASE("estimates of schedules that split backward passes are within 5 % of the engine's step and memory",
          "[long]") {
  for (const char* job : {"llama3-70b-64xh100"}) {
    const PlanSearchResult result = found_untuned(
        base_of(job, {{"plan.fix.pipeline_schedule", "[zb_v, interleaved_zb]"}, {"plan.evaluations", "10"}}));
    REQUIRE(result.best.size() == 10);
    for (const RankedCandidate& of : result.best) {
      if (of.estimate.step_s == 0) continue;  // a neighbour of the best
      CAPTURE(job, describe(of.candidate), of.estimate.step_s, of.evaluation.step_s);
      CHECK(of.estimate.step_s / of.evaluation.step_s == Approx(1).margin(0.05));
      CHECK(of.estimate.peak_bytes / static_cast<double>(of.evaluation.peak_bytes) == Approx(1).margin(0.06));
    }
  }
}

// Passes behind a step's first one read copies in fp8, not the weights. Layers of 2-byte weights have 2 bytes
// of copies each beside them; word tables have none.
TEST_CASE("weights that are cast to fp8 once a step are estimated with their copies, within 3 % of memory",
          "[long]") {
  for (const char* model : {"mixtral-8x22b"}) {
    const PlanSearchResult result = found_untuned(
        base_of("llama3-70b-64xh100", {{"model.from", model},
                                       {"parallelism.virtual_pipeline_model_parallel_size", "2"},
                                       {"training.precision", "fp8"},
                                       {"plan.fix.zero_stage", "[0, 1]"},
                                       {"plan.best", "40"},
                                       {"plan.evaluations", "12"}}));
    // The others have schedules or layers of their own, which are simulated at once.
    CHECK(std::ranges::count_if(result.best, is_estimated) >= 2);
    for (const RankedCandidate& of : result.best) {
      if (!is_estimated(of)) continue;
      CAPTURE(model, describe(of.candidate), of.estimate.peak_bytes, of.evaluation.peak_bytes);
      CHECK(of.estimate.step_s / of.evaluation.step_s == Approx(1).margin(0.15));
      CHECK(of.estimate.peak_bytes / static_cast<double>(of.evaluation.peak_bytes) == Approx(1).margin(0.03));
    }
  }
}

// Adapters alone have gradients and optimizer state; what they adapt lies whole on every rank but with
// ZeRO-3. BERT's loss is computed of some of the tokens.
TEST_CASE("adapters, frozen weights and encoders are estimated: steps and memory within 15 %", "[long]") {
  const std::vector<std::pair<std::string, std::vector<Override>>> jobs = {
      {"llama2-7b-lora-8xh100", {{"training.precision", "fp8"}, {"plan.fix.zero_stage", "3"}}},
      {"llama2-7b-lora-8xh100", {{"training.lora", "{rank: 16, base_dtype: nf4}"}}},
      {"llama2-7b-lora-8xh100",
       {{"model.from", "qwen1.5-moe-a2.7b"}, {"training.lora.targets", "[qkv]"}, {"recompute", "{}"}}},
      {"llama3-8b-8xh100", {{"model.from", "bert-large"}, {"training.seq_length", "512"}}},
  };
  for (const auto& [job, overrides] : jobs) {
    const PlanSearchResult result = found_untuned(base_of(job, with(overrides, {"plan.evaluations", "12"})));
    REQUIRE(result.best.size() == 10);
    CHECK(result.evaluated < 192);  // with neighbours, further schedules, and layers dealt and moved
    CHECK(std::ranges::count_if(result.best, is_estimated) >= 5);
    for (const RankedCandidate& of : result.best) {
      if (!is_estimated(of)) continue;
      CAPTURE(job, describe(of.candidate), of.estimate.step_s, of.evaluation.step_s, of.estimate.peak_bytes,
              of.evaluation.peak_bytes);
      CHECK(of.estimate.step_s / of.evaluation.step_s == Approx(1).margin(0.15));
      CHECK(of.estimate.peak_bytes / static_cast<double>(of.evaluation.peak_bytes) == Approx(1).margin(0.15));
    }
  }
}

// 80 layers on 12, 24 and 28 stages: ranks have stages of unlike size.
TEST_CASE("memory of unlike virtual stages is estimated within 2 % of the engine's", "[long]") {
  const PlanSearchResult result = found_untuned(
      base_of("llama3-70b-64xh100", {{"plan.best", "20"},
                                     {"plan.fix.zero_stage", "1"},
                                     {"plan.fix.pipeline_model_parallel_size", "4"},
                                     {"plan.fix.virtual_pipeline_model_parallel_size", "[3, 6, 7]"}}));
  REQUIRE(result.best.size() >= 10);
  CHECK(std::ranges::count_if(result.best, is_estimated) >= 10);
  for (const RankedCandidate& of : result.best) {
    if (!is_estimated(of)) continue;
    CAPTURE(describe(of.candidate), of.estimate.peak_bytes, of.evaluation.peak_bytes);
    CHECK(of.estimate.peak_bytes / static_cast<double>(of.evaluation.peak_bytes) == Approx(1).margin(0.02));
  }
}

// Products put their weights' gradients off as what they read; whole gradients live within the pass that
// writes them.
TEST_CASE("memory under ZeRO-2 and 3 with divided backward passes is estimated within 10 % of the engine's",
          "[long]") {
  for (const char* schedule : {"[zb_h1]", "[zb_v]", "[interleaved_zb]"}) {
    const PlanSearchResult result = found_untuned(base_of(
        "llama3-8b-8xh100",
        {{"plan.best", "20"}, {"plan.fix.zero_stage", "[2, 3]"}, {"plan.fix.pipeline_schedule", schedule}}));
    CHECK(std::ranges::count_if(result.best, is_estimated) >= 5);
    for (const RankedCandidate& of : result.best) {
      if (!is_estimated(of)) continue;
      CAPTURE(describe(of.candidate), of.estimate.peak_bytes, of.evaluation.peak_bytes);
      CHECK(of.estimate.peak_bytes / static_cast<double>(of.evaluation.peak_bytes) == Approx(1).margin(0.1));
    }
  }
}

}  // namespace simrun
