#include "validation/model_presets.h"

#include <catch2/catch.hpp>

#include "tests/validation/rows.h"

namespace simrun {
namespace {

TEST_CASE("model presets: a name is whole words, whatever stands between letters and digits") {
  const std::vector<ModelPreset> presets{
      {"_", ""},           {"bert-base", "bert"}, {"gemma2-2b", "gemma2"},   {"gpt2", "gpt2"},
      {"gpt2-xl", "gpt2"}, {"phi-4", "phi3"},     {"mistral-7b", "mistral"}, {"qwen2.5-7b", "qwen2"},
      {"yi-6b", "llama"}};
  const auto named = [&](const char* text) {
    const ModelPreset* found = model_named(text, presets);
    return found == nullptr ? "" : found->name;
  };
  for (const char* text : {"Qwen2.5-7B", "qwen 2.5 7b", "Qwen_2.5-7B-Instruct", "(Qwen2.5-7B, 4k tokens)"})
    CHECK(named(text) == "qwen2.5-7b");
  CHECK(named("GPT-2") == "gpt2");
  CHECK(named("OpenAI's GPT-2") == "gpt2");
  CHECK(named("GPT-2 XL (1.5B)") == "gpt2-xl");
  CHECK(named("BERT-base 110M") == "bert-base");
  CHECK(named("Gemma 2 2B") == "gemma2-2b");
  for (const char* text : {"", "_", "GPT-2 1.5B", "GPT-2 medium", "GPT-2.5", "Phi-4-mini", "DistilBERT-base",
                           "Qwen2.5-72B", "Yi-6B2", "Yi-1.6B", "gemma-22b", "LLaVA-1.6 Mistral-7B"})
    CHECK(named(text) == "");
}

TEST_CASE("model presets: every preset is named by its own name, with its type") {
  const std::vector<ModelPreset> presets = model_presets(source_presets());
  CHECK(presets.size() > 90);
  for (const ModelPreset& preset : presets) {
    CAPTURE(preset.name);
    REQUIRE(model_named(preset.name, presets) != nullptr);
    CHECK(model_named(preset.name, presets)->name == preset.name);
    CHECK_FALSE(preset.model_type.empty());
  }
}

}  // namespace
}  // namespace simrun
