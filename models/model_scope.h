#pragma once

#include <string>
#include <vector>

#include "configs/scope_pattern.h"
#include "models/graph.h"

namespace simrun {

// Which operators of a graph a scope (configs/scope_pattern.h) is about. Its NAME is that of an operator
// (qkv), of a recompute module (core_attn) or one of these parts, or a pattern of them:
//   embedding  before the first layer        head  behind the last
//   attention  of a layer, with heads        mlp   of a layer, with a feed-forward dimension
//   moe        of a layer, with experts
//   mamba      of a layer, with groups of Mamba heads
//   delta_net  of a layer, with key heads of a Gated DeltaNet
//   vision_tower, multi_modal_projector, language_model
//              of a vision-language model, wherever they lie
bool holds(const ScopePattern& scope, const Graph& graph, const Operator& op);

// All names that a scope may have in this graph, each once.
std::vector<std::string> scope_names(const Graph& graph);

// What to say, where the scope stands, of one that holds no operator of the graph.
Diagnostic no_such_scope(const ScopePattern& scope, const Graph& graph);

}  // namespace simrun
