#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace simrun {

// A character of a shell script's value, and where it is written.
struct ShellCharacter {
  char character = 0;
  int line = 0, column = 0;
  bool ends_word = false;  // white space outside of quotes, or the end of an array's element ('\0')
  bool is_unknown = false;
  bool is_conditional = false;
};
using ShellText = std::vector<ShellCharacter>;

std::string characters_of(const ShellText& text);

// The words that it is split into. `keeps_empty`: nothing at all is one empty word, as "" is.
std::vector<ShellText> split_words(const ShellText& text, bool keeps_empty);

// Of a variable's value: a scalar is a list of one.
using ShellValue = std::vector<ShellText>;

// The value behind a `$`, with its characters where the variable got them. In quotes nothing is split but
// elements of "${A[@]}".
ShellText expanded(const ShellValue& value, bool in_quotes, bool all_elements);

// What is known of whether something is so.
enum class Truth : std::uint8_t { no, yes, unknown };
Truth negated(Truth truth);

// Of the words of [ ... ] or [[ ... ]], or a part of it between && and ||.
Truth shell_test(const std::vector<ShellText>& words);

// Whole numbers, + - * / % and parentheses, names of variables with or without `$`. Nothing where a name or
// a character is not known, or a divisor is 0.
std::optional<std::int64_t> shell_arithmetic(std::string_view expression,
                                             const std::map<std::string, ShellValue>& variables);

}  // namespace simrun
