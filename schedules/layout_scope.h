#pragma once

#include <string>
#include <vector>

#include "models/graph.h"

namespace simrun {

// Which operators a layout rule is for. A scope is
//   ""                              all
//   layers, layers[0-11,14]         the operators of these layers
//   layers[0-11].NAME               ... of that name in them
//   NAME                            of that name anywhere
// where NAME is an operator (qkv), a recompute module (core_attn), one of the parts below, or a pattern of
// these with `*` for any characters:
//   embedding  before the first layer        head  behind the last
//   attention  of a layer, with heads        mlp   of a layer, with a feed-forward dimension
//   moe        of a layer, with experts
struct LayoutScope {
  struct Layers {
    std::int32_t first = 0, last = 0;
  };
  bool in_layers = false;
  std::vector<Layers> layers;  // none: all, if in_layers
  std::string name;            // "": any

  bool holds(const Graph& graph, const Operator& op) const;
};

// Throws std::invalid_argument with what cannot be read.
LayoutScope parse_layout_scope(const std::string& text);

// All names that a scope may have in this graph, each once.
std::vector<std::string> scope_names(const Graph& graph);

}  // namespace simrun
