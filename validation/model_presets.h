#pragma once

#include <string>
#include <vector>

#include "configs/load_job.h"

namespace simrun {

// A file of models/.
struct ModelPreset {
  std::string name;        // without the extension
  std::string model_type;  // "" where it takes it from another
};

// Of all preset directories, by name; of two with one name the first.
std::vector<ModelPreset> model_presets(const LoadOptions& options);

// The preset that `text` names, whatever the case and what stands between letters and digits: "Qwen 2.5 7B"
// is qwen2.5-7b. Whole words only, and no name without a size in front of a number: neither "DistilBERT-base"
// is bert-base nor "GPT-2 1.5B" gpt2. The longest of several; nullptr where there is none.
const ModelPreset* model_named(const std::string& text, const std::vector<ModelPreset>& presets);

}  // namespace simrun
