#include <catch2/catch.hpp>

#include "tests/configs/small_job.h"

namespace simrun::test {
namespace {

std::string with_model(const std::string& line) {
  return edited("  vocab_size: 51200\n", "  vocab_size: 51200\n  " + line + "\n");
}
std::string with_lora(const std::string& lora) {
  return edited("  precision: bf16\n", "  precision: bf16\n  lora: " + lora + "\n");
}

}  // namespace

TEST_CASE("frozen parts and adapters load, and print as what loads again") {
  const std::string text =
      edited(with_model("frozen: [embedding, \"layers[0-3].fc*\", layers]"), "  precision: bf16\n",
             "  precision: bf16\n  lora: {rank: 16, targets: [q, v]}\n");
  const LoadedJob loaded = load_job_text(text, "job.yaml", with_presets());
  REQUIRE(loaded.job.model.frozen.size() == 3);
  const ScopePattern& pattern = loaded.job.model.frozen[1];
  CHECK(pattern.first_layer == 0);
  CHECK(pattern.last_layer == 3);
  CHECK(pattern.name == "fc");
  CHECK(pattern.is_prefix);
  CHECK(loaded.job.training.lora->alpha == 16);  // scale 1
  CHECK(loaded.job.training.lora->targets == std::vector<std::string>{"q", "v"});
  CHECK(load_job_text(loaded.effective_yaml, "job.yaml", with_presets()).job == loaded.job);
}

TEST_CASE("what is no part of the model is refused where it stands") {
  const std::string hint =
      "  hint: patterns are embedding, head, layers, \"layers[0-11]\" and \"layers[0-11].fc1\" (in "
      "quotes).\n";
  CHECK(refusal(with_model("frozen: [embeddings, \"layers[4-8]\", \"layers[3-1]\"]")) ==
        "job.yaml:8:12: error: 'embeddings' is no part of a model\n" + hint +
            "job.yaml:8:24: error: 'layers[4-8]' reaches beyond the model's 8 layers\n"
            "  hint: the last is 7.\n"
            "job.yaml:8:39: error: 'layers[3-1]' is no part of a model\n" +
            hint + "3 errors; nothing was run.\n");
}

TEST_CASE("adapters' targets are named as here, with the words of other frameworks explained") {
  CHECK_THAT(refusal(with_lora("{rank: 8, targets: [q_proj]}")), Catch::Contains("'q_proj' is 'q' here"));
  CHECK_THAT(refusal(with_lora("{rank: 8, targets: [qkv, v]}")),
             Catch::Contains("'v' is part of 'qkv', which is listed too"));
  CHECK_THAT(refusal(with_lora("{targets: [qkv]}")), Catch::Contains("missing required key 'rank'"));
}

}  // namespace simrun::test
