#pragma once

#include <string>
#include <vector>

#include "configs/load_job.h"
#include "validation/measured_row.h"

namespace simrun {

// A file of models/.
struct ModelPreset {
  std::string name;        // without the extension
  std::string model_type;  // "" where it takes it from another
  // As written; "" where the file does not say it as one number.
  std::string layers = {};
  std::string positions = {};  // the longest sequence
  std::string heads = {};
  std::string hidden = {}, kv_heads = {}, vocab = {};
  std::string ffn = {}, expert_ffn = {};  // expert_ffn only where it has a key of its own
  std::string experts = {}, topk = {};
};

// Whether a row that prints its model's layers and width means just the preset's: whatever else it prints of
// heads and MLPs is the preset's, too.
bool has_dimensions_of(const MeasuredRow& row, const ModelPreset& preset);

// Of all preset directories, by name; of two with one name the first.
std::vector<ModelPreset> model_presets(const LoadOptions& options);

// The preset that `text` names, whatever the case and what stands between letters and digits: "Qwen 2.5 7B"
// is qwen2.5-7b. Whole words only, with no other model's number in front ("LLaVA-1.6 Mistral-7B"). The
// longest of several; a name that ends with neither a size nor a word for one, as gpt2 and phi-4, only where
// nothing follows that could make it another ("GPT-2 1.5B", "Phi-4-mini"). nullptr where there is none.
const ModelPreset* model_named(const std::string& text, const std::vector<ModelPreset>& presets);

}  // namespace simrun
