#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace simrun {

// A part of a model in words:
//   embedding              all before the first layer
//   head                   all behind the last
//   vision_tower, multi_modal_projector, language_model
//                          the parts of a vision-language model, wherever they lie
//   layers                 every layer
//   layers[3]              one, counted from 0
//   layers[0-11]           the layers 0 to 11
//   layers.qkv             of every layer the operators with that name, or of that recompute module
//   layers[0-11].fc*       names that begin so
enum class ModelPart : std::uint8_t { embedding, layers, head, vision_tower, projector, language_model };
struct ScopePattern {
  std::string text;
  ModelPart part = ModelPart::layers;
  std::int64_t first_layer = 0;
  std::int64_t last_layer = -1;  // included; -1: the model's last
  std::string name;              // empty: every operator
  bool is_prefix = false;
  bool operator==(const ScopePattern&) const = default;
};

// Nothing if the text is no such pattern.
std::optional<ScopePattern> parse_scope(const std::string& text);

}  // namespace simrun
