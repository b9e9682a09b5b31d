// Scopes in a job: layout rules and frozen parameters name operators in the same words.
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "configs/load_sections.h"

namespace simrun {
namespace {

constexpr std::size_t longest_scope = 200;

}  // namespace

std::optional<ScopePattern> read_scope(const ConfigNode& node, Reading& reading) {
  const auto printable = [](char c) { return c >= 0x20 && c < 0x7f; };
  if (node.kind != ConfigNode::Kind::scalar || node.text.empty() || node.text.size() > longest_scope ||
      !std::ranges::all_of(node.text, printable)) {
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

}  // namespace simrun
