#include "configs/shell_text.h"

#include <algorithm>
#include <charconv>
#include <limits>

namespace simrun {
namespace {

bool is_space(char character) { return character == ' ' || character == '\t' || character == '\n'; }

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

// A sum of products; every function returns nothing as soon as anything is not known.
class Arithmetic {
 public:
  Arithmetic(std::string_view text, const std::map<std::string, ShellValue>& variables)
      : text_(text), variables_(variables) {}

  std::optional<std::int64_t> value() {
    const std::optional<std::int64_t> sum = sum_of(0);
    skip_space();
    return at_ == text_.size() ? sum : std::nullopt;
  }

 private:
  static constexpr int deepest = 50;

  void skip_space() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }
  char peek() {
    skip_space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  std::optional<std::int64_t> sum_of(int depth) {
    std::optional<std::int64_t> left = product_of(depth);
    while (left && (peek() == '+' || peek() == '-')) {
      const char sign = text_[at_++];
      const std::optional<std::int64_t> right = product_of(depth);
      std::int64_t sum = 0;
      if (!right || (sign == '+' ? __builtin_add_overflow(*left, *right, &sum)
                                 : __builtin_sub_overflow(*left, *right, &sum)))
        return std::nullopt;
      left = sum;
    }
    return left;
  }

  std::optional<std::int64_t> product_of(int depth) {
    std::optional<std::int64_t> left = factor(depth);
    while (left && (peek() == '*' || peek() == '/' || peek() == '%')) {
      const char sign = text_[at_++];
      const std::optional<std::int64_t> right = factor(depth);
      if (!right || (sign != '*' && (*right == 0 || *right == -1))) return std::nullopt;
      std::int64_t product = 0;
      if (sign == '*' && __builtin_mul_overflow(*left, *right, &product)) return std::nullopt;
      left = sign == '*' ? product : sign == '/' ? *left / *right : *left % *right;
    }
    return left;
  }

  std::optional<std::int64_t> factor(int depth) {
    if (depth > deepest) return std::nullopt;
    if (peek() == '(') {
      ++at_;
      const std::optional<std::int64_t> inner = sum_of(depth + 1);
      if (peek() != ')') return std::nullopt;
      ++at_;
      return inner;
    }
    if (peek() == '$') ++at_;
    const bool braced = at_ < text_.size() && text_[at_] == '{';
    if (braced) ++at_;
    const std::size_t first = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '_'))
      ++at_;
    const std::string word(text_.substr(first, at_ - first));
    if (braced && (at_ >= text_.size() || text_[at_++] != '}')) return std::nullopt;
    if (const std::optional<std::int64_t> number = whole_number(word)) return number;
    const auto variable = variables_.find(word);
    if (variable == variables_.end() || variable->second.size() != 1) return std::nullopt;
    const ShellText& text = variable->second.front();
    if (std::ranges::any_of(text, &ShellCharacter::is_unknown)) return std::nullopt;
    return whole_number(characters_of(text));
  }

  std::string_view text_;
  const std::map<std::string, ShellValue>& variables_;
  std::size_t at_ = 0;
};

Truth truth_of(bool holds) { return holds ? Truth::yes : Truth::no; }

Truth compared(const std::string& left, const std::string& sign, const std::string& right) {
  if (sign == "=" || sign == "==" || sign == "!=") {
    if (right.find_first_of("*?[") != std::string::npos) return Truth::unknown;  // a pattern
    return truth_of((left == right) == (sign != "!="));
  }
  const std::optional<std::int64_t> a = whole_number(left), b = whole_number(right);
  if (!a || !b) return Truth::unknown;
  if (sign == "-eq") return truth_of(*a == *b);
  if (sign == "-ne") return truth_of(*a != *b);
  if (sign == "-lt") return truth_of(*a < *b);
  if (sign == "-le") return truth_of(*a <= *b);
  if (sign == "-gt") return truth_of(*a > *b);
  if (sign == "-ge") return truth_of(*a >= *b);
  return Truth::unknown;
}

}  // namespace

std::string characters_of(const ShellText& text) {
  std::string characters;
  for (const ShellCharacter& one : text) characters += one.character;
  return characters;
}

std::vector<ShellText> split_words(const ShellText& text, bool keeps_empty) {
  std::vector<ShellText> words(1);
  for (const ShellCharacter& one : text) {
    if (!one.ends_word)
      words.back().push_back(one);
    else if (!words.back().empty())
      words.emplace_back();
  }
  if (words.back().empty() && !(keeps_empty && text.empty())) words.pop_back();
  return words;
}

ShellText expanded(const ShellValue& value, bool in_quotes, bool all_elements) {
  ShellText text;
  for (const ShellText& element : value) {
    if (!text.empty()) text.push_back({'\0', 0, 0, true});
    for (ShellCharacter one : element) {
      one.ends_word = !in_quotes && is_space(one.character);
      text.push_back(one);
    }
    if (!all_elements) break;
  }
  return text;
}

Truth negated(Truth truth) {
  return truth == Truth::unknown ? truth : truth == Truth::yes ? Truth::no : Truth::yes;
}

Truth shell_test(const std::vector<ShellText>& words) {
  std::vector<std::string> texts;
  bool is_unknown = false, is_negated = false;
  for (const ShellText& word : words) {
    const std::string text = characters_of(word);
    if (text == "[" || text == "[[" || text == "]" || text == "]]" || text == "test") continue;
    if (text == "!") {
      is_negated = !is_negated;
      continue;
    }
    is_unknown |= std::ranges::any_of(
        word, [](const ShellCharacter& one) { return one.is_unknown || one.is_conditional; });
    texts.push_back(text);
  }
  Truth truth = Truth::unknown;
  if (is_unknown) return truth;
  if (texts.size() == 1) truth = truth_of(!texts[0].empty());
  if (texts.size() == 2 && texts[0] == "-z") truth = truth_of(texts[1].empty());
  if (texts.size() == 2 && texts[0] == "-n") truth = truth_of(!texts[1].empty());
  if (texts.size() == 3) truth = compared(texts[0], texts[1], texts[2]);
  return is_negated ? negated(truth) : truth;
}

std::optional<std::int64_t> shell_arithmetic(std::string_view expression,
                                             const std::map<std::string, ShellValue>& variables) {
  return Arithmetic(expression, variables).value();
}

}  // namespace simrun
