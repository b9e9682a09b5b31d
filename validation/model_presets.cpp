#include "validation/model_presets.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>

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

// "7b", "350m", "1t" at the end.
bool ends_with_size(const std::string& letters) {
  const std::size_t length = letters.size();
  return length > 1 && is_digit(letters[length - 2]) &&
         std::string("bmt").find(letters.back()) != std::string::npos;
}

bool holds(const PlainName& text, const std::string& name) {
  for (std::size_t at = text.letters.find(name); at != std::string::npos;
       at = text.letters.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    if (!text.begins_word[at]) continue;
    if (end == text.letters.size()) return true;
    if (text.begins_word[end] && (ends_with_size(name) || !is_digit(text.letters[end]))) return true;
  }
  return false;
}

std::string model_type_in(const std::string& path) {
  const TextFile file = read_text_file(path);
  if (!file.text) return "";
  std::vector<Diagnostic> ignored;
  const ConfigNode root = read_yaml(*file.text, path, ignored);
  const ConfigNode* type = root.find("model_type");
  return type == nullptr ? "" : type->text;
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
  for (const auto& [name, path] : paths) presets.push_back({name, model_type_in(path)});
  return presets;
}

const ModelPreset* model_named(const std::string& text, const std::vector<ModelPreset>& presets) {
  const PlainName searched = plain(text);
  const ModelPreset* longest = nullptr;
  for (const ModelPreset& preset : presets)
    if (holds(searched, plain(preset.name).letters) &&
        (longest == nullptr || preset.name.size() > longest->name.size()))
      longest = &preset;
  return longest;
}

}  // namespace simrun
