#include "planner/operator_choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "configs/layer_list.h"

namespace simrun {
namespace {

std::string split_text(const OperatorChoice& choice) {
  std::vector<std::string> dims;
  for (const auto& [dim, axes] : choice.split)
    dims.push_back(axes.size() == 1 ? fmt::format("{}: {}", dim, axes.front())
                                    : fmt::format("{}: [{}]", dim, fmt::join(axes, ", ")));
  return fmt::format("{}", fmt::join(dims, ", "));
}

}  // namespace

std::string rule_text(const OperatorChoice& choice) {
  std::string text = fmt::format("{{scope: \"{}\"", choice.scope);
  if (!choice.split.empty()) text += fmt::format(", split: {{{}}}", split_text(choice));
  if (!choice.whole.empty()) text += fmt::format(", replicate: [{}]", fmt::join(choice.whole, ", "));
  return text + "}";
}

std::string layout_text(const OwnAxes& own_axes, const std::vector<OperatorChoice>& operators) {
  std::vector<std::string> axes, rules;
  for (const auto& [name, size] : own_axes) axes.push_back(fmt::format("{}: {}", name, size));
  for (const OperatorChoice& choice : operators) rules.push_back(rule_text(choice));
  if (axes.empty()) return fmt::format("[{}]", fmt::join(rules, ", "));
  return fmt::format("{{mesh: {{{}}}, rules: [{}]}}", fmt::join(axes, ", "), fmt::join(rules, ", "));
}

void OperatorChoices::add(OperatorChoice choice, std::int64_t layer) {
  const std::string key = fmt::format("{} {}", layer < 0, rule_text(choice));
  auto scope = std::ranges::find(scopes_, key, &Scope::key);
  if (scope == scopes_.end()) scope = scopes_.insert(scopes_.end(), {key, std::move(choice), {}});
  if (layer >= 0) scope->layers.push_back(layer);
}

std::vector<OperatorChoice> OperatorChoices::joined() const {
  std::vector<OperatorChoice> choices;
  for (const Scope& scope : scopes_) {
    choices.push_back(scope.choice);
    if (!scope.layers.empty())
      choices.back().scope = fmt::format("layers[{}].{}", layer_list_text(scope.layers), scope.choice.scope);
  }
  return choices;
}

}  // namespace simrun
