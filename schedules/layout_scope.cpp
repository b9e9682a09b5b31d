#include "schedules/layout_scope.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <stdexcept>
#include <utility>

namespace simrun {
namespace {

// The part of a layer that an operator with such a dimension belongs to; the first that it has counts.
constexpr std::array<std::pair<const char*, const char*>, 13> part_of_dimension{{{"experts", "moe"},
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
                                                                                 {"ffn", "mlp"}}};

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

std::int32_t number(std::string_view text, const std::string& scope) {
  std::int32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size() || value < 0)
    throw std::invalid_argument(fmt::format("the layers of '{}' are no numbers", scope));
  return value;
}

LayoutScope::Layers range(std::string_view text, const std::string& scope) {
  const std::size_t dash = text.find('-');
  const std::int32_t first = number(text.substr(0, dash), scope);
  const std::int32_t last = dash == std::string_view::npos ? first : number(text.substr(dash + 1), scope);
  if (last < first) throw std::invalid_argument(fmt::format("'{}' counts its layers backwards", scope));
  return {first, last};
}

}  // namespace

bool LayoutScope::holds(const Graph& graph, const Operator& op) const {
  const auto has = [&](const Layers& some) { return some.first <= op.layer && op.layer <= some.last; };
  if (in_layers && op.layer < 0) return false;
  if (!layers.empty() && std::none_of(layers.begin(), layers.end(), has)) return false;
  return name.empty() || fits(name, op.name) || (!op.module.empty() && fits(name, op.module)) ||
         fits(name, part_of(graph, op));
}

LayoutScope parse_layout_scope(const std::string& text) {
  LayoutScope scope;
  constexpr std::string_view word = "layers";
  std::string_view rest = text;
  if (!rest.starts_with(word) ||
      (rest.size() > word.size() && rest[word.size()] != '[' && rest[word.size()] != '.')) {
    scope.name = text;
    return scope;
  }
  scope.in_layers = true;
  rest.remove_prefix(word.size());
  if (rest.starts_with('[')) {
    const std::size_t close = rest.find(']');
    if (close == std::string_view::npos)
      throw std::invalid_argument(fmt::format("the bracket in '{}' is not closed", text));
    for (std::string_view list = rest.substr(1, close - 1);;) {
      const std::size_t comma = list.find(',');
      scope.layers.push_back(range(list.substr(0, comma), text));
      if (comma == std::string_view::npos) break;
      list.remove_prefix(comma + 1);
    }
    rest.remove_prefix(close + 1);
  }
  if (rest.empty()) return scope;
  if (rest.front() != '.' || rest.size() == 1)
    throw std::invalid_argument(
        fmt::format("'{}' goes on with '{}' where a name behind a dot may be", text, rest));
  scope.name = rest.substr(1);
  return scope;
}

std::vector<std::string> scope_names(const Graph& graph) {
  std::vector<std::string> names{"layers"};
  const auto add = [&](const std::string& name) {
    if (!name.empty() && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  };
  for (const Operator& op : graph.operators) add(part_of(graph, op));
  for (const Operator& op : graph.operators) add(op.module);
  for (const Operator& op : graph.operators) add(op.name);
  return names;
}

}  // namespace simrun
