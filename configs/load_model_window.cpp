// Sliding windows: which layers see only so many tokens.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "configs/limits.h"
#include "configs/load_model_keys.h"

namespace simrun {
namespace {

// Qwen's configs state a window that is off; what is left of them then means nothing.
bool is_switched_off(const ModelKeys& keys) {
  keys.section.ignore({"use_sliding_window", "max_window_layers"});
  if (keys.section.has("use_sliding_window") && keys.section.boolean("use_sliding_window")) return false;
  keys.reading.take(keys.section.path_of("use_sliding_window"));
  keys.section.ignore({"sliding_window"});
  return true;
}

// By layer_types: whether each layer has a window, for which `windowed_word` stands. Empty: not written, or
// refused.
std::vector<bool> read_layer_types(const ModelKeys& keys, const std::string& windowed_word) {
  const ConfigNode* node = keys.section.section("layer_types");
  if (node == nullptr) return {};
  std::vector<bool> windowed;
  std::vector<std::string> words;
  for (const ConfigNode& layer : node->children) {
    if (layer.text != "full_attention" && layer.text != windowed_word) {
      keys.reading.problems.push_back({layer.position,
                                       fmt::format("layer type {} is not supported yet", describe(layer)),
                                       fmt::format("full_attention and {} are.", windowed_word)});
      return {};
    }
    words.push_back(layer.text);
    windowed.push_back(layer.text == windowed_word);
  }
  if (static_cast<std::int64_t>(windowed.size()) != keys.model.num_layers) {
    keys.reading.problems.push_back(
        {node->position,
         fmt::format("layer_types has {} entries for {} layers", windowed.size(), keys.model.num_layers),
         ""});
    return {};
  }
  keys.reading.record(keys.section.path_of("layer_types"), fmt::format("[{}]", fmt::join(words, ", ")),
                      origin_of(node->position));
  return windowed;
}

std::vector<bool> layers_of(const ModelKeys& keys, WindowPattern pattern, std::int64_t period) {
  std::vector<bool> windowed(static_cast<std::size_t>(keys.model.num_layers), true);
  // Qwen2Config's default of max_window_layers.
  const std::int64_t first = pattern == WindowPattern::from_max_window_layers
                                 ? keys.section.integer("max_window_layers", {0, limits::layers.most}, 28)
                                 : 0;
  for (std::size_t layer = 0; layer < windowed.size(); ++layer)
    windowed[layer] =
        static_cast<std::int64_t>(layer) >= first &&
        (pattern != WindowPattern::even_layers || layer % 2 == 0) &&
        (pattern != WindowPattern::all_but_last_of || (static_cast<std::int64_t>(layer) + 1) % period != 0);
  return windowed;
}

}  // namespace

void read_attention_windows(const ModelKeys& keys, WindowPattern pattern, std::int64_t period) {
  const bool off = pattern == WindowPattern::from_max_window_layers && is_switched_off(keys);
  std::int64_t window = 0;
  if (!off && keys.section.has("sliding_window"))
    window = keys.section.integer("sliding_window", limits::sequence);
  keys.section.ignore({"sliding_window"});
  std::vector<bool> windowed = read_layer_types(keys, "sliding_attention");
  if (window == 0 && std::ranges::find(windowed, true) != windowed.end())
    return keys.reading.problem(
        keys.section.path_of("layer_types"), "layer type 'sliding_attention' needs a sliding_window",
        pattern == WindowPattern::from_max_window_layers ? "with use_sliding_window: true." : "");
  if (window == 0) return;
  if (windowed.empty()) windowed = layers_of(keys, pattern, period);
  if (std::ranges::find(windowed, true) == windowed.end()) return;
  for (const bool is_windowed : windowed) keys.model.attention_windows.push_back(is_windowed ? window : 0);
}

void read_attention_chunks(const ModelKeys& keys) {
  ModelConfig& model = keys.model;
  const std::int64_t chunk = keys.section.integer("attention_chunk_size", limits::sequence, 8192);
  std::vector<bool> chunked = read_layer_types(keys, "chunked_attention");
  if (chunked.empty()) {
    chunked.assign(static_cast<std::size_t>(model.num_layers), true);
    if (model.layers_without_rope.size() == chunked.size()) {
      chunked = model.layers_without_rope;
      chunked.flip();
    }
  }
  if (chunk == 0 || std::ranges::find(chunked, true) == chunked.end()) return;
  model.chunked_windows = true;
  for (const bool is_chunked : chunked) model.attention_windows.push_back(is_chunked ? chunk : 0);
}

}  // namespace simrun
