#include <catch2/catch.hpp>

#include "configs/layer_list.h"
#include "tests/configs/small_job.h"

// Layers by number, in recompute.layers and optimizer.zero_3_layers: small_job has 8.
namespace simrun::test {
namespace {

std::string with(const std::string& sections) { return small_job + sections + "\n"; }

}  // namespace

TEST_CASE("a list of layers is written as it is read") {
  CHECK(layer_list_text({0, 1, 2, 3, 4, 5, 9}) == "0-5,9");
  CHECK(layer_list_text({3}) == "3");
  CHECK(layer_list_text({}).empty());
  const Job job = load(with("recompute: {granularity: full, layers: \"0-5,7\"}"));
  for (std::int64_t layer = 0; layer < 8; ++layer)
    CHECK(has_layer(job.recompute.layers, layer) == (layer != 6));
}

TEST_CASE("lists of layers print as what loads again") {
  for (const char* sections :
       {"recompute: {granularity: full, layers: \"0-5,7\"}",
        "optimizer: {zero_stage: 1, zero_3_layers: \"2-4\"}", "optimizer: {zero_3_layers: 0}"}) {
    CAPTURE(sections);
    const LoadedJob loaded = load_job_text(with(sections), "job.yaml", with_presets());
    CHECK(load_job_text(loaded.effective_yaml, "job.yaml", with_presets()).job == loaded.job);
  }
}

TEST_CASE("layers of ZeRO-3 overlap what they gather and reduce, as zero_stage 3 does") {
  const Job job = load(with("optimizer: {zero_3_layers: \"0-3\"}"));
  CHECK(job.optimizer.overlap_grad_reduce);
  CHECK(job.optimizer.overlap_param_gather);
  CHECK_THAT(refusal(with("optimizer: {zero_3_layers: \"0-3\", overlap_grad_reduce: false}")),
             Catch::Contains("ZeRO-3 of some layers always reduces gradients behind the backward pass"));
}

TEST_CASE("lists of layers that mean nothing are refused, with the reason") {
  CHECK_THAT(refusal(with("recompute: {granularity: full, layers: \"0-8\"}")),
             Catch::Contains("the model has 8 layers, and no layer 8"));
  CHECK_THAT(refusal(with("optimizer: {zero_3_layers: \"9\"}")),
             Catch::Contains("the model has 8 layers, and no layer 9"));
  CHECK_THAT(refusal(with("recompute: {granularity: full, layers: \"first\"}")),
             Catch::Contains("'recompute.layers' must be a list of layers, not 'first'"));
  CHECK_THAT(refusal(with("recompute: {granularity: full, layers: \"0-3\", num_layers: 2}")),
             Catch::Contains("'recompute.layers' names the layers, and so would 'recompute.num_layers'"));
  CHECK_THAT(refusal(with("recompute: {granularity: selective, layers: \"0-3\"}")),
             Catch::Contains("'recompute.layers' means nothing with granularity: selective"));
  CHECK_THAT(refusal(with("optimizer: {zero_stage: 3, zero_3_layers: \"0-3\"}")),
             Catch::Contains("zero_stage 3 shards the weights of every layer"));
  CHECK_THAT(refusal(with("optimizer: {zero_3_layers: \"0-3\", all_reduce: hierarchical}")),
             Catch::Contains("zero_3_layers beside all_reduce: hierarchical is not supported yet"));
}

}  // namespace simrun::test
