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
  CHECK(pattern.layers == std::vector<ScopePattern::Layers>{{0, 3}});
  CHECK(pattern.name == "fc*");
  CHECK(loaded.job.training.lora->alpha == 16);  // scale 1
  CHECK(loaded.job.training.lora->targets == std::vector<std::string>{"q", "v"});
  CHECK(load_job_text(loaded.effective_yaml, "job.yaml", with_presets()).job == loaded.job);
}

TEST_CASE("what is no part of the model is refused where it stands") {
  CHECK(refusal(with_model("frozen: [\"layers[4-8]\", \"layers[3-1]\"]")) ==
        "job.yaml:8:12: error: the scope 'layers[4-8]' names layer 8\n"
        "  hint: the model's are 0 to 7.\n"
        "job.yaml:8:27: error: 'layers[3-1]' counts its layers backwards\n"
        "  hint: " +
            std::string(scope_hint) + "\n2 errors; nothing was run.\n");
}

TEST_CASE("adapters' targets are named as here, with the words of other frameworks explained") {
  CHECK_THAT(refusal(with_lora("{rank: 8, targets: [q_proj]}")), Catch::Contains("'q_proj' is 'q' here"));
  CHECK_THAT(refusal(with_lora("{rank: 8, targets: [qkv, v]}")),
             Catch::Contains("'v' is part of 'qkv', which is listed too"));
  CHECK_THAT(refusal(with_lora("{targets: [qkv]}")), Catch::Contains("missing required key 'rank'"));
}

TEST_CASE("adapters stand beside all products by default, of latent attention beside its last") {
  const auto targets = [](const std::string& model) {
    return load("simrun: 1\nmodel: {from: " + model +
                "}\ntraining: {seq_length: 512, micro_batch_size: 1, global_batch_size: 8, precision: bf16, "
                "lora: {rank: 8}}\ncluster: {from: dgx_h100, nodes: 1}\n")
        .training.lora->targets;
  };
  using Targets = std::vector<std::string>;
  CHECK(targets("llama3-8b") == Targets{"qkv", "attention_projection", "fc1", "fc2"});
  CHECK(targets("deepseek-v2-lite") == Targets{"attention_projection", "fc1", "fc2"});
}

TEST_CASE("what adapters stand beside may be kept in NF4, multiplied in a type of 16 bits or more") {
  const std::string base = with_lora("{rank: 8, base_dtype: nf4}");
  const LoadedJob loaded = load_job_text(base, "job.yaml", with_presets());
  CHECK(loaded.job.training.lora->nf4_base);
  CHECK(load_job_text(loaded.effective_yaml, "job.yaml", with_presets()).job == loaded.job);
  CHECK_THAT(refusal(with_lora("{rank: 8, base_dtype: int8}")), Catch::Contains("int8"));
  CHECK_THAT(refusal(edited(base, "precision: bf16", "precision: fp8")),
             Catch::Contains("weights in nf4 are multiplied in the type of training"));
}

}  // namespace simrun::test
