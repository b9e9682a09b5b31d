#include "configs/scope_pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <string_view>

namespace simrun {
namespace {

constexpr std::string_view layers_word = "layers";

std::int64_t layer_number(std::string_view text, const std::string& scope) {
  std::int32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size() || value < 0)
    throw std::invalid_argument(fmt::format("the layers of '{}' are no numbers", scope));
  return value;
}

ScopePattern::Layers layer_range(std::string_view text, const std::string& scope) {
  const std::size_t dash = text.find('-');
  const std::int64_t first = layer_number(text.substr(0, dash), scope);
  const std::int64_t last =
      dash == std::string_view::npos ? first : layer_number(text.substr(dash + 1), scope);
  if (last < first) throw std::invalid_argument(fmt::format("'{}' counts its layers backwards", scope));
  return {first, last};
}

std::vector<ScopePattern::Layers> layer_list(std::string_view list, const std::string& scope) {
  std::vector<ScopePattern::Layers> layers;
  while (true) {
    const std::size_t comma = list.find(',');
    layers.push_back(layer_range(list.substr(0, comma), scope));
    if (comma == std::string_view::npos) return layers;
    list.remove_prefix(comma + 1);
  }
}

// Other words may begin so too.
bool begins_with_layers(std::string_view text) {
  if (!text.starts_with(layers_word)) return false;
  return text.size() == layers_word.size() || text[layers_word.size()] == '[' ||
         text[layers_word.size()] == '.';
}

}  // namespace

const char* const scope_hint =
    "scopes are for example embedding, head, layers, attention, \"layers[0-11,14]\" and "
    "\"layers[0-11].fc*\" (in quotes).";

std::optional<std::int64_t> ScopePattern::layer_beyond(std::int64_t model_layers) const {
  std::optional<std::int64_t> beyond;
  for (const Layers& some : layers)
    if (some.last >= model_layers && (!beyond || *beyond > std::max(some.first, model_layers)))
      beyond = std::max(some.first, model_layers);
  return beyond;
}

ScopePattern parse_scope(const std::string& text, const SourcePosition& position) {
  ScopePattern scope;
  scope.text = text;
  scope.position = position;
  if (!begins_with_layers(text)) {
    scope.name = text;
    return scope;
  }
  scope.in_layers = true;
  std::string_view rest = std::string_view(text).substr(layers_word.size());
  if (rest.starts_with('[')) {
    const std::size_t close = rest.find(']');
    if (close == std::string_view::npos)
      throw std::invalid_argument(fmt::format("the bracket in '{}' is not closed", text));
    scope.layers = layer_list(rest.substr(1, close - 1), text);
    rest.remove_prefix(close + 1);
  }
  if (rest.empty()) return scope;
  if (rest.front() != '.' || rest.size() == 1)
    throw std::invalid_argument(
        fmt::format("'{}' goes on with '{}' where a name behind a dot may be", text, rest));
  scope.name = rest.substr(1);
  return scope;
}

}  // namespace simrun
