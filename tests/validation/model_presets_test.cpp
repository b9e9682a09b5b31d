#include "validation/model_presets.h"

#include <catch2/catch.hpp>

#include "tests/validation/rows.h"

namespace simrun {
namespace {

TEST_CASE("model presets: a name is whole words, whatever stands between letters and digits") {
  const std::vector<ModelPreset> presets{{"bert-base", "bert"},
                                         {"gpt2", "gpt2"},
                                         {"gpt2-xl", "gpt2"},
                                         {"qwen2.5-7b", "qwen2"},
                                         {"yi-6b", "llama"}};
  const auto named = [&](const char* text) {
    const ModelPreset* found = model_named(text, presets);
    return found == nullptr ? "" : found->name;
  };
  for (const char* text : {"Qwen2.5-7B", "qwen 2.5 7b", "Qwen_2.5-7B-Instruct", "(Qwen2.5-7B, 4k tokens)"})
    CHECK(named(text) == "qwen2.5-7b");
  CHECK(named("GPT-2") == "gpt2");
  CHECK(named("GPT-2 XL") == "gpt2-xl");
  CHECK(named("gpt2 medium") == "gpt2");
  for (const char* text :
       {"", "GPT-2 1.5B", "GPT-2.5", "DistilBERT-base", "Qwen2.5-72B", "Yi-6B2", "Yi-1.6B"})
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
