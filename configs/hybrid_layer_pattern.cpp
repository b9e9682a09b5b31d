#include "configs/hybrid_layer_pattern.h"

#include <fmt/format.h>

#include <algorithm>

namespace simrun {
namespace {

std::vector<std::string> parts_of(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (const char symbol : text) {
    if (symbol == separator)
      parts.emplace_back();
    else
      parts.back() += symbol;
  }
  return parts;
}

}  // namespace

HybridLayerPattern parse_hybrid_layer_pattern(const std::string& text) {
  HybridLayerPattern pattern;
  const std::vector<std::string> predictions = parts_of(text, '/');
  for (const std::string& stage : parts_of(predictions.front(), '|')) {
    pattern.layers += stage;
    pattern.stage_layers.push_back(static_cast<std::int64_t>(stage.size()));
  }
  pattern.further_tokens = static_cast<std::int64_t>(predictions.size()) - 1;
  if (pattern.further_tokens == 0) return pattern;
  pattern.further = predictions.back();
  const bool are_alike = std::all_of(predictions.begin() + 1, predictions.end(),
                                     [&](const std::string& layers) { return layers == pattern.further; });
  if (!are_alike) {
    pattern.problem = "the layers behind each / are alike in Megatron-LM";
    pattern.hint = fmt::format("the same behind each of the {}.", pattern.further_tokens);
  } else if (pattern.further.empty()) {
    pattern.problem = "no layers behind /";
    pattern.hint = "M*/*E: an attention layer and experts predict one more token.";
  } else if (pattern.further.find('|') != std::string::npos) {
    pattern.problem = "layers that predict further tokens are on the last stage";
    pattern.hint = "no | behind /.";
  }
  return pattern;
}

}  // namespace simrun
