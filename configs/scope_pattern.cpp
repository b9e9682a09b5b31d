#include "configs/scope_pattern.h"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

namespace simrun {
namespace {

constexpr std::string_view layers_word = "layers";
constexpr std::pair<std::string_view, ModelPart> parts[] = {{"embedding", ModelPart::embedding},
                                                            {"head", ModelPart::head},
                                                            {"vision_tower", ModelPart::vision_tower},
                                                            {"multi_modal_projector", ModelPart::projector},
                                                            {"language_model", ModelPart::language_model}};
constexpr std::size_t most_digits = 9;

std::optional<std::int64_t> parse_layer(std::string_view digits) {
  if (digits.empty() || digits.size() > most_digits) return std::nullopt;
  std::int64_t value = 0;
  for (const char digit : digits) {
    if (digit < '0' || digit > '9') return std::nullopt;
    value = 10 * value + (digit - '0');
  }
  return value;
}

bool read_range(std::string_view range, ScopePattern& pattern) {
  const std::size_t dash = range.find('-');
  const std::optional<std::int64_t> first = parse_layer(range.substr(0, dash));
  const std::optional<std::int64_t> last =
      dash == std::string_view::npos ? first : parse_layer(range.substr(dash + 1));
  if (!first || !last || *first > *last) return false;
  pattern.first_layer = *first;
  pattern.last_layer = *last;
  return true;
}

bool read_name(std::string_view name, ScopePattern& pattern) {
  if (!name.empty() && name.back() == '*') {
    pattern.is_prefix = true;
    name.remove_suffix(1);
  }
  const auto is_letter = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  if (name.empty() || !std::ranges::all_of(name, is_letter)) return false;
  pattern.name = name;
  return true;
}

}  // namespace

std::optional<ScopePattern> parse_scope(const std::string& text) {
  ScopePattern pattern;
  pattern.text = text;
  for (const auto& [word, part] : parts)
    if (text == word) {
      pattern.part = part;
      return pattern;
    }
  std::string_view rest = text;
  if (!rest.starts_with(layers_word)) return std::nullopt;
  rest.remove_prefix(layers_word.size());
  if (rest.starts_with('[')) {
    const std::size_t end = rest.find(']');
    if (end == std::string_view::npos || !read_range(rest.substr(1, end - 1), pattern)) return std::nullopt;
    rest.remove_prefix(end + 1);
  }
  if (rest.empty()) return pattern;
  if (rest.front() != '.' || !read_name(rest.substr(1), pattern)) return std::nullopt;
  return pattern;
}

}  // namespace simrun
