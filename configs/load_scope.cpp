// Scopes in a job: layout rules and frozen parameters name operators in the same words.
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "configs/load_sections.h"
#include "configs/reading.h"

namespace simrun {
namespace {

constexpr std::size_t longest_scope = 200;

}  // namespace

std::optional<ScopePattern> read_scope(const ConfigNode& node, Reading& reading) {
  if (node.kind != ConfigNode::Kind::scalar || node.text.empty() || node.text.size() > longest_scope ||
      !std::ranges::all_of(node.text, is_printable)) {
    reading.problems.push_back(
        {node.position, fmt::format("a scope must name operators, not {}", describe(node)), scope_hint});
    return std::nullopt;
  }
  try {
    return parse_scope(node.text, node.position);
  } catch (const std::invalid_argument& error) {
    reading.problems.push_back({node.position, error.what(), scope_hint});
    return std::nullopt;
  }
}

std::vector<ScopePattern> read_scopes(SectionReader& section, Reading& reading, const std::string& key) {
  std::vector<ScopePattern> scopes;
  const ConfigNode* node = section.section(key);
  if (node == nullptr) return scopes;
  const std::string path = section.path_of(key);
  reading.positions[path] = node->position;
  if (node->kind != ConfigNode::Kind::sequence || node->children.empty()) {
    reading.problem(path, fmt::format("'{}' must be a list of scopes, not {}", path, describe(*node)),
                    scope_hint);
    return scopes;
  }
  std::vector<std::string> texts;
  for (const ConfigNode& child : node->children) {
    std::optional<ScopePattern> scope = read_scope(child, reading);
    if (!scope) continue;
    texts.push_back(yaml_quoted(scope->text));
    scopes.push_back(std::move(*scope));
  }
  reading.record(path, fmt::format("[{}]", fmt::join(texts, ", ")), origin_of(node->position));
  return scopes;
}

void check_scope_layers(const std::vector<ScopePattern>& scopes, std::int64_t model_layers,
                        Reading& reading) {
  if (model_layers <= 0) return;
  for (const ScopePattern& scope : scopes)
    if (const std::optional<std::int64_t> beyond = scope.layer_beyond(model_layers))
      reading.problems.push_back({scope.position,
                                  fmt::format("the scope '{}' names layer {}", scope.text, *beyond),
                                  fmt::format("the model's are 0 to {}.", model_layers - 1)});
}

}  // namespace simrun
