#include "models/model_scope.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

namespace simrun {
namespace {

// The part of a layer that an operator with such a dimension belongs to; the first that it has counts.
constexpr std::array<std::pair<const char*, const char*>, 15> part_of_dimension{
    {{"experts", "moe"},
     {"expert_ffn", "moe"},
     {"expert_scores", "moe"},
     {"capacity", "moe"},
     {"gpu_rows", "moe"},
     {"node_rows", "moe"},
     {"shared_ffn", "moe"},
     {"kv_heads", "attention"},
     {"heads", "attention"},
     {"qkv_rows", "attention"},
     {"q_lora", "attention"},
     {"kv_lora", "attention"},
     {"ffn", "mlp"},
     {"mamba_groups", "mamba"},
     {"delta_heads", "delta_net"}}};

std::string part_of(const Graph& graph, const Operator& op) {
  if (op.layer < 0) return op.after_layers ? "head" : "embedding";
  const std::vector<DimensionId> space = iteration_space(graph, op);
  for (const auto& [dimension, part] : part_of_dimension)
    for (const DimensionId dim : space)
      if (graph.dimensions[dim].name == dimension) return part;
  return "";
}

// `*` in the pattern stands for any characters. After a mismatch only the last one needs to take more.
bool fits(std::string_view pattern, std::string_view text) {
  std::size_t p = 0, t = 0, star = std::string_view::npos, behind_star = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      behind_star = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++behind_star;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

}  // namespace

bool holds(const ScopePattern& scope, const Graph& graph, const Operator& op) {
  const auto has = [&](const ScopePattern::Layers& some) {
    return some.first <= op.layer && op.layer <= some.last;
  };
  if (scope.in_layers && op.layer < 0) return false;
  if (!scope.layers.empty() && std::none_of(scope.layers.begin(), scope.layers.end(), has)) return false;
  const std::string& name = scope.name;
  return name.empty() || fits(name, op.name) || (!op.module.empty() && fits(name, op.module)) ||
         (!op.stack.empty() && fits(name, op.stack)) || fits(name, part_of(graph, op));
}

std::vector<std::string> scope_names(const Graph& graph) {
  std::vector<std::string> names{"layers"};
  const auto add = [&](const std::string& name) {
    if (!name.empty() && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  };
  for (const Operator& op : graph.operators) add(part_of(graph, op));
  for (const Operator& op : graph.operators) add(op.stack);
  for (const Operator& op : graph.operators) add(op.module);
  for (const Operator& op : graph.operators) add(op.name);
  return names;
}

Diagnostic no_such_scope(const ScopePattern& scope, const Graph& graph) {
  std::int32_t layers = 0;
  for (const Operator& op : graph.operators) layers = std::max(layers, op.layer + 1);
  for (const ScopePattern::Layers& some : scope.layers)
    if (some.first >= layers)
      return {scope.position, fmt::format("the scope '{}' names layer {}", scope.text, some.first),
              fmt::format("the model's are 0 to {}.", layers - 1)};
  const std::vector<std::string> names = scope_names(graph);
  const std::string near = closest(scope.name, names);
  return {scope.position, fmt::format("no operator is in the scope '{}'", scope.text),
          near.empty() ? fmt::format("names are {}.", fmt::join(names, ", "))
                       : fmt::format("did you mean '{}'?", near)};
}

}  // namespace simrun
