#include <catch2/catch.hpp>

#include "tests/configs/small_job.h"

// Recompute by virtual stage: small_job has 8 layers on 2 stages.
namespace simrun::test {
namespace {

std::string with_recompute(const std::string& section) { return small_job + "recompute: " + section + "\n"; }

void round_trips(const std::string& section) {
  const LoadedJob loaded = load_job_text(with_recompute(section), "job.yaml", with_presets());
  CHECK(load_job_text(loaded.effective_yaml, "job.yaml", with_presets()).job == loaded.job);
}

}  // namespace

TEST_CASE("recompute counts by virtual stage load, and print as what loads again") {
  const Job job =
      load(with_recompute("{granularity: full, method: block, num_layers: [2, 0], modules: [mlp], "
                          "module_layers: {mlp: [1, 4]}}"));
  CHECK(job.recompute.stage_layers == std::vector<std::int64_t>{2, 0});
  CHECK(job.recompute.module_layers == std::vector<std::vector<std::int64_t>>{{1, 4}});
  round_trips(
      "{granularity: full, method: block, num_layers: [2, 0], modules: [mlp], module_layers: {mlp: [1, 4]}}");
  round_trips("{granularity: selective, modules: [core_attn, mlp], module_layers: {mlp: [1, 4]}}");
  round_trips("{granularity: auto}");
  round_trips("{granularity: auto, memory_limit: 40 GiB}");
}

TEST_CASE("auto's limit is by default what the GPU has less the reserve") {
  CHECK(load(with_recompute("{granularity: auto}")).recompute.memory_limit == std::int64_t{78} << 30);
}

TEST_CASE("counts that do not match the stages are refused") {
  CHECK_THAT(refusal(with_recompute("{granularity: full, method: block, num_layers: [1, 2, 3]}")),
             Catch::Contains("3 numbers for 2 virtual stages (pipeline 2 x virtual 1)"));
  CHECK_THAT(refusal(with_recompute("{granularity: full, method: block, num_layers: [1, 5]}")),
             Catch::Contains("virtual stage 1 has 4 layers, not 5"));
  CHECK_THAT(refusal(with_recompute("{granularity: full, num_layers: [1, 2]}")),
             Catch::Contains("needs method: block"));
  CHECK_THAT(refusal(with_recompute("{granularity: full, method: block, num_layers: [1, x]}")),
             Catch::Contains("must be a list of whole numbers, not of 'x'"));
  CHECK_THAT(refusal(with_recompute("{granularity: selective, module_layers: {core_attn: 3}}")),
             Catch::Contains("'recompute.module_layers.core_attn' must be a list of whole numbers, not '3'"));
  CHECK_THAT(refusal(with_recompute("{granularity: selective, module_layers: {mlp: [1, 2]}}")),
             Catch::Contains("unknown key 'mlp' in 'recompute.module_layers'"));
  CHECK_THAT(refusal(with_recompute("{granularity: auto, memory_limit: 100 GiB}")),
             Catch::Contains("100.0 GiB are more than the 78.0 GiB of h100_sxm less its reserve"));
  CHECK_THAT(refusal(with_recompute("{granularity: none, memory_limit: 1 GiB}")),
             Catch::Contains("'recompute.memory_limit' means nothing with granularity: none"));
}

TEST_CASE("operators that are kept are scopes, in place of modules") {
  const Job job = load(with_recompute("{granularity: selective, saved: [qkv, \"layers[0-3].fc*\"]}"));
  REQUIRE(job.recompute.saved.size() == 2);
  CHECK(job.recompute.saved[1].text == "layers[0-3].fc*");
  CHECK(job.recompute.modules.empty());
  round_trips("{granularity: selective, saved: [qkv, \"layers[0-3].fc*\"]}");
  CHECK_THAT(refusal(with_recompute("{granularity: selective, saved: [qkv], modules: [mlp]}")),
             Catch::Contains("'recompute.saved' says what is kept, and 'recompute.modules' what is not"));
  CHECK_THAT(refusal(with_recompute("{granularity: full, saved: [qkv]}")),
             Catch::Contains("'recompute.saved' means nothing with granularity: full"));
  CHECK_THAT(refusal(with_recompute("{granularity: selective, saved: []}")),
             Catch::Contains("'recompute.saved' must be a list of scopes"));
  CHECK_THAT(refusal(with_recompute("{granularity: selective, saved: [\"layers[4-8].qkv\"]}")),
             Catch::Contains("the scope 'layers[4-8].qkv' names layer 8"));
}

}  // namespace simrun::test
