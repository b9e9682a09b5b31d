#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "configs/diagnostics.h"

namespace simrun {

// Which operators of a model something is about, in words: the one grammar of layout rules (`scope`) and of
// frozen parameters (`model.frozen`). A scope is
//   layers, layers[3]               the operators of all layers, or of one, counted from 0
//   layers[0-11,14]                 of these layers
//   layers.NAME, layers[0-11].NAME  of that name in them
//   NAME                            of that name anywhere
//   (empty)                         all operators
// What a NAME may be, the model's graph says (models/model_scope.h); `*` in it stands for any characters.
struct ScopePattern {
  struct Layers {
    std::int64_t first = 0, last = 0;  // both included
    bool operator==(const Layers&) const = default;
  };
  std::string text;  // as written
  bool in_layers = false;
  std::vector<Layers> layers;  // none: all, if in_layers
  std::string name;            // "": any
  SourcePosition position;

  // The first of its layers that a model of so many lacks.
  std::optional<std::int64_t> layer_beyond(std::int64_t model_layers) const;
  // Equal if they say the same, wherever.
  bool operator==(const ScopePattern& other) const { return text == other.text; }
};

// How scopes are written, as a hint.
extern const char* const scope_hint;

// Throws std::invalid_argument with what cannot be read.
ScopePattern parse_scope(const std::string& text, const SourcePosition& position = {});

}  // namespace simrun
