#include "validation/text_pattern.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <string_view>
#include <vector>

#include "validation/measured_row.h"

namespace simrun {
namespace {

char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }
bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '+' || c == '-';
}

struct Placeholder {
  std::string name;
  bool (*belongs)(char);
  bool ends_sentence = true;  // without the dot or dash behind it
};

const std::vector<Placeholder> placeholders = {
    {"{}", is_word},
    {"{#}", [](char c) { return is_digit(c) || c == '.'; }},
    {"{text}",
     [](char c) { return std::isspace(static_cast<unsigned char>(c)) == 0 && c != '"' && c != ';'; }, false},
};

std::string held_at(const std::string& text, std::size_t at, const Placeholder& placeholder) {
  std::size_t end = at;
  while (end < text.size() && placeholder.belongs(text[end])) ++end;
  while (placeholder.ends_sentence && end > at && (text[end - 1] == '.' || text[end - 1] == '-')) --end;
  return text.substr(at, end - at);
}

// Whether these words stand in the text at `at`, in capitals or not.
bool is_alike(const std::string& text, std::size_t at, std::string_view words) {
  return at + words.size() <= text.size() &&
         std::equal(words.begin(), words.end(), text.begin() + static_cast<std::ptrdiff_t>(at),
                    [](char a, char b) { return lower(a) == lower(b); });
}

// Where a pattern was found.
struct Found {
  std::string captured;  // what its placeholder stands for
  std::size_t end = 0;   // behind it
};

// The pattern from `p` at `t`.
bool matches_at(const std::string& pattern, std::size_t p, const std::string& text, std::size_t t,
                Found& found) {
  for (; p < pattern.size(); ++p, ++t) {
    if (pattern[p] == '*') {
      for (std::size_t skip = t; skip <= text.size(); ++skip)
        if (matches_at(pattern, p + 1, text, skip, found)) return true;
      return false;
    }
    const auto held = std::ranges::find_if(placeholders, [&](const Placeholder& one) {
      return pattern.compare(p, one.name.size(), one.name) == 0;
    });
    if (held != placeholders.end()) {
      found.captured = held_at(text, t, *held);
      return !found.captured.empty() &&
             matches_at(pattern, p + held->name.size(), text, t + found.captured.size(), found);
    }
    if (t >= text.size() || lower(pattern[p]) != lower(text[t])) return false;
  }
  found.end = t;
  return true;
}

bool is_alnum(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

// Whether one of these stands at `at`, no part of a longer word.
template <std::size_t n>
bool is_word_of(const std::array<std::string_view, n>& words, const std::string& text, std::size_t at) {
  return std::ranges::any_of(words, [&](std::string_view word) {
    return is_alike(text, at, word) && (at + word.size() == text.size() || !is_alnum(text[at + word.size()]));
  });
}

// "no DeepEP", "without MoE A2A overlap": the word in front of `begin`, or the one before that.
bool is_denied_before(const std::string& text, std::size_t begin) {
  constexpr std::array<std::string_view, 6> words = {"no", "not", "non", "without", "w/o", "unless"};
  while (begin < text.size() && text[begin] == ' ') ++begin;
  std::size_t start = begin;
  for (int back = 0; back < 2; ++back) {
    const bool follows = start > 0 && (text[start - 1] == ' ' || (back == 0 && text[start - 1] == '-'));
    if (!follows) return false;
    start -= 1;
    while (start > 0 && (is_alnum(text[start - 1]) || text[start - 1] == '/' || text[start - 1] == '-'))
      --start;
    if (is_word_of(words, text, start)) return true;
  }
  return false;
}

// "A2A overlap off", "LoRA: none", "offload_param=false", "is disabled": what follows `end`.
bool is_denied_behind(const std::string& text, std::size_t end) {
  constexpr std::array<std::string_view, 4> words = {"off", "disabled", "false", "not used"};
  constexpr std::array<std::string_view, 3> values = {"none", "no", "0"};
  while (end > 0 && end <= text.size() && text[end - 1] == ' ') --end;
  std::size_t at = end;
  while (at < text.size() && (text[at] == ' ' || text[at] == ':' || text[at] == '=')) ++at;
  if (at == end) return false;
  if (is_alike(text, at, "is ")) return is_word_of(words, text, at + 3);
  const bool is_value = text.substr(end, at - end).find_first_of(":=") != std::string::npos;
  return is_word_of(words, text, at) || (is_value && is_word_of(values, text, at));
}

}  // namespace

std::optional<std::string> matched(const std::string& pattern, const std::string& text) {
  if (pattern.starts_with('='))
    return text.find(pattern.substr(1)) == std::string::npos ? std::nullopt : std::optional<std::string>("");
  Found found;
  for (std::size_t at = 0; at <= text.size(); ++at)
    if (matches_at(pattern, 0, text, at, found)) return found.captured;
  return std::nullopt;
}

std::string undenied(const std::string& text) {
  std::string kept;
  for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end) {
    end = begin + 1;
    while (is_alnum(text[begin]) && end < text.size() && is_alnum(text[end])) ++end;
    const bool is_denied =
        is_alnum(text[begin]) && (is_denied_before(text, begin) || is_denied_behind(text, end));
    if (!is_denied) kept += text.substr(begin, end - begin);
  }
  return kept;
}

std::optional<std::string> said(const std::string& pattern, const std::string& text) {
  if (pattern.starts_with('=')) return matched(pattern, text);
  Found found;
  for (std::size_t at = 0; at <= text.size(); ++at)
    if (matches_at(pattern, 0, text, at, found) && !is_denied_before(text, at) &&
        !is_denied_behind(text, found.end))
      return found.captured;
  return std::nullopt;
}

}  // namespace simrun
