#include "validation/model_presets.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <utility>

#include "configs/config_node.h"
#include "configs/text_file.h"
#include "validation/measured_row.h"

namespace simrun {
namespace {

namespace fs = std::filesystem;

bool is_named_with(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.'; }

// What names are compared by: letters, digits and dots, and which of them begin a word.
struct PlainName {
  std::string letters;
  std::vector<bool> begins_word;
};

PlainName plain(const std::string& text) {
  PlainName name;
  bool is_inside = false;
  for (const char c : text) {
    if (is_named_with(c)) {
      name.letters += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      name.begins_word.push_back(!is_inside);
    }
    is_inside = is_named_with(c);
  }
  return name;
}

// Ends with "7b", "350m", "1t", or with a word as "xl": what follows then cannot make it another model.
bool says_its_size(const PlainName& name) {
  const std::string& letters = name.letters;
  if (letters.size() > 1 && is_digit(letters[letters.size() - 2]) &&
      std::string("bmt").find(letters.back()) != std::string::npos)
    return true;
  std::size_t word = letters.size() - 1;
  while (word > 0 && !name.begins_word[word]) --word;
  return word > 0 &&
         std::none_of(letters.begin() + static_cast<std::ptrdiff_t>(word), letters.end(), is_digit);
}

// Where the name begins in the text as whole words; npos where it does not. Digits are joined in both or in
// neither.
std::size_t place_in(const PlainName& text, const PlainName& name) {
  const std::string& letters = name.letters;
  for (std::size_t at = text.letters.find(letters); at != std::string::npos;
       at = text.letters.find(letters, at + 1)) {
    const std::size_t end = at + letters.size();
    bool is_whole = text.begins_word[at] && (end == text.letters.size() || text.begins_word[end]);
    for (std::size_t i = 1; i < letters.size(); ++i)
      if (is_digit(letters[i - 1]) && is_digit(letters[i]))
        is_whole = is_whole && text.begins_word[at + i] == name.begins_word[i];
    if (is_whole) return at;
  }
  return std::string::npos;
}

ModelPreset preset_in(const std::string& name, const std::string& path) {
  ModelPreset preset{name, ""};
  const TextFile file = read_text_file(path);
  if (!file.text) return preset;
  std::vector<Diagnostic> ignored;
  const ConfigNode root = read_yaml(*file.text, path, ignored);
  if (const ConfigNode* type = root.find("model_type")) preset.model_type = type->text;
  const std::pair<std::string*, std::vector<const char*>> spellings[] = {
      {&preset.layers, {"num_hidden_layers", "num_layers", "n_layers", "n_layer"}},
      {&preset.positions, {"max_position_embeddings", "n_positions", "max_seq_len"}},
      {&preset.heads, {"num_attention_heads", "num_heads", "n_head", "n_heads"}},
      {&preset.kv_heads, {"num_key_value_heads"}},
      {&preset.vocab, {"vocab_size"}},
      {&preset.hidden, {"hidden_size", "d_model", "n_embd", "n_embed"}},
      {&preset.ffn, {"intermediate_size", "ffn_hidden_size", "ffn_dim", "d_ff"}},
      {&preset.expert_ffn, {"moe_intermediate_size"}},
      {&preset.experts, {"n_routed_experts", "num_local_experts", "num_experts"}},
      {&preset.topk, {"num_experts_per_tok", "moe_router_topk"}}};
  for (const auto& [value, keys] : spellings)
    for (const char* key : keys)
      if (const ConfigNode* node = root.find(key)) *value = node->text;
  return preset;
}

}  // namespace

std::vector<ModelPreset> model_presets(const LoadOptions& options) {
  std::map<std::string, std::string> paths;
  for (const std::string& directory : options.preset_directories) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(fs::path(directory) / "models", ignored))
      if (entry.path().extension() == ".yaml")
        paths.emplace(entry.path().stem().string(), entry.path().string());
  }
  std::vector<ModelPreset> presets;
  presets.reserve(paths.size());
  for (const auto& [name, path] : paths) presets.push_back(preset_in(name, path));
  return presets;
}

bool has_dimensions_of(const MeasuredRow& row, const ModelPreset& preset) {
  const auto agrees = [&](Column column, const std::string& value) {
    return row[column].empty() || row[column] == value;
  };
  const bool has_ffn =
      agrees(Column::ffn_hidden, preset.ffn) || agrees(Column::ffn_hidden, preset.expert_ffn);
  // A row that prints a longer sequence has more positions than the preset.
  const bool has_positions = preset.positions.empty() ||
                             row.integer(Column::seq_len).value_or(0) <= std::atoll(preset.positions.c_str());
  return has_positions && row[Column::layers] == preset.layers && row[Column::hidden] == preset.hidden &&
         agrees(Column::heads, preset.heads) && has_ffn && agrees(Column::n_experts, preset.experts) &&
         agrees(Column::topk, preset.topk) &&
         agrees(Column::kv_heads, preset.kv_heads.empty() ? preset.heads : preset.kv_heads);
}

const ModelPreset* model_named(const std::string& text, const std::vector<ModelPreset>& presets) {
  const PlainName searched = plain(text);
  const ModelPreset* longest = nullptr;
  PlainName of_longest;
  for (const ModelPreset& preset : presets) {
    const PlainName name = plain(preset.name);
    if (name.letters.size() <= of_longest.letters.size() || place_in(searched, name) == std::string::npos)
      continue;
    longest = &preset;
    of_longest = name;
  }
  if (longest == nullptr) return nullptr;
  const std::size_t at = place_in(searched, of_longest);
  const bool ends = at + of_longest.letters.size() == searched.letters.size();
  const bool follows_a_number = std::any_of(
      searched.letters.begin(), searched.letters.begin() + static_cast<std::ptrdiff_t>(at), is_digit);
  return !follows_a_number && (ends || says_its_size(of_longest)) ? longest : nullptr;
}

}  // namespace simrun
