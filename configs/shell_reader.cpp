#include "configs/shell_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

namespace simrun {
namespace {

constexpr std::size_t most_expanded = 2'000'000;  // characters
constexpr const char* too_long = "the variables of this script make too long a text";
constexpr int deepest = 50;

bool is_name_start(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_name_character(char c) { return is_name_start(c) || (c >= '0' && c <= '9'); }
bool ends_a_word(char c) {
  return c == '\0' || std::string_view(" \t\r\n;&|()<>").find(c) != std::string_view::npos;
}

}  // namespace

ShellReader::ShellReader(const std::string& text, const ShellText& source, const ShellReader& outer)
    : text_(text),
      file_(outer.file_),
      problems_(outer.problems_),
      source_(&source),
      depth_(outer.depth_ + 1),
      expanded_(outer.expanded_ + source.size()),
      variables_(outer.variables_) {
  for (const auto& [name, value] : variables_)
    for (const ShellText& element : value) expanded_ += element.size();
  if (depth_ > deepest) fail(here(), "scripts within scripts, more than 50 deep");
  if (expanded_ > most_expanded) fail(here(), too_long);
}

void ShellReader::take_back(ShellReader& inner, bool keeps_variables) {
  expanded_ = inner.expanded_;
  has_failed_ |= inner.has_failed_;
  expanded_names_.merge(inner.expanded_names_);
  if (keeps_variables) variables_ = std::move(inner.variables_);
}

ShellReader::Mark ShellReader::here() const {
  if (source_ == nullptr) return {line_, column_};
  if (source_->empty()) return {};
  const ShellCharacter& at = (*source_)[std::min(at_, source_->size() - 1)];
  return {at.line, at.column};
}

char ShellReader::peek(std::size_t ahead) const {
  return !has_failed_ && at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
}

void ShellReader::advance(std::size_t count) {
  for (; count > 0 && at_ < text_.size(); --count) {
    if (text_[at_++] != '\n') {
      ++column_;
      continue;
    }
    ++line_;
    column_ = 1;
    for (const std::string& end : std::exchange(here_documents_, {})) {
      const std::size_t found = text_.find("\n" + end, at_ - 1);
      const std::size_t stop = found == std::string::npos ? text_.size() : found + 1 + end.size();
      for (; at_ < stop; ++at_) line_ += text_[at_] == '\n' ? 1 : 0;
      column_ = static_cast<int>(end.size()) + 1;
    }
  }
}

void ShellReader::fail(Mark at, const std::string& message) {
  if (!has_failed_) problems_.push_back({{file_, at.line, at.column}, message, ""});
  has_failed_ = true;
}

void ShellReader::skip_blanks() {
  const bool begins_word = at_ == 0 || ends_a_word(text_[at_ - 1]);
  for (bool after_space = begins_word;; after_space = true) {
    if (peek() == ' ' || peek() == '\t' || peek() == '\r')
      advance();
    else if (peek() == '\\' && peek(1) == '\n')
      advance(2);
    else if (peek() == '\\' && peek(1) == '\r' && peek(2) == '\n')
      advance(3);
    else if (peek() == '#' && after_space)
      while (peek() != '\n' && peek() != '\0') advance();
    else
      return;
  }
}

bool ShellReader::skip_to_command() {
  for (;;) {
    skip_blanks();
    if (peek() != '\n' && peek() != ';') return peek() != '\0';
    advance();
  }
}

void ShellReader::skip_redirected_number() {
  std::size_t digits = 0;
  while (peek(digits) >= '0' && peek(digits) <= '9') ++digits;
  if (digits > 0 && (peek(digits) == '<' || peek(digits) == '>')) advance(digits);
}

void ShellReader::skip_redirection() {
  const bool is_here_document = peek() == '<' && peek(1) == '<' && peek(2) != '<';
  while (peek() == '<' || peek() == '>' || peek() == '&') advance();
  if (is_here_document && peek() == '-') advance();
  skip_blanks();
  bool has_quotes = false;
  const std::string target = characters_of(word(has_quotes));
  if (is_here_document && !target.empty()) here_documents_.push_back(target);
}

bool ShellReader::is_at_word(const std::string& word) const {
  return text_.compare(at_, word.size(), word) == 0 && ends_a_word(peek(word.size()));
}

std::string ShellReader::name_here() const {
  std::size_t length = 0;
  if (is_name_start(peek()))
    while (is_name_character(peek(length))) ++length;
  return text_.substr(at_, length);
}

std::string ShellReader::assigned_name() {
  const std::string name = name_here();
  const bool sets = peek(name.size()) == '=' && peek(name.size() + 1) != '=';
  const bool appends = peek(name.size()) == '+' && peek(name.size() + 1) == '=';
  if (name.empty() || (!sets && !appends)) return "";
  advance(name.size());
  return name;
}

void ShellReader::put(ShellText& text, const std::string& characters, Mark at, bool is_unknown) const {
  const ShellCharacter from =
      source_ != nullptr && at_ < source_->size() ? (*source_)[at_] : ShellCharacter{};
  for (const char character : characters)
    text.push_back({.character = character,
                    .line = at.line,
                    .column = at.column,
                    .is_unknown = is_unknown || from.is_unknown,
                    .is_conditional = from.is_conditional});
}

ShellText ShellReader::word(bool& has_quotes) {
  was_array_ = false;
  ShellText text;
  while (!ends_a_word(peek())) {
    const Mark at = here();
    const char next = peek();
    if (next == '"' || next == '\'') {
      // "$@" and "${A[@]}" without elements are no word, unlike "".
      const std::size_t begin = at_;
      read_quoted(text);
      const std::string_view quoted = std::string_view(text_).substr(begin, at_ - begin);
      has_quotes |=
          quoted.find("[@]") == std::string_view::npos && quoted.find("$@") == std::string_view::npos;
    } else if (next == '\\') {
      read_escape(/*in_quotes=*/false, text);
    } else if (next == '$') {
      read_expansion(/*in_quotes=*/false, text);
    } else if (next == '`') {
      skip_balanced('`', '`');
      put(text, "`...`", at, true);
    } else {
      put(text, std::string(1, next), at);
      advance();
    }
  }
  return text;
}

void ShellReader::read_quoted(ShellText& text) {
  const char quote = peek();
  const Mark at = here();
  advance();
  if (quote == '"') return read_until('"', /*in_quotes=*/true, text);
  while (peek() != quote && peek() != '\0') {
    put(text, std::string(1, peek()), here());
    advance();
  }
  if (peek() == '\0') return fail(at, "this quote is never closed");
  advance();
}

void ShellReader::read_escape(bool in_quotes, ShellText& text) {
  const Mark at = here();
  const char next = peek(1);
  if (next == '\n') return advance(2);
  const bool stays = in_quotes && next != '"' && next != '\\' && next != '$' && next != '`';
  advance(stays || next == '\0' ? 1 : 2);
  put(text, std::string(1, stays || next == '\0' ? '\\' : next), at);
}

void ShellReader::read_until(char end, bool in_quotes, ShellText& text) {
  const Mark at = here();
  while (peek() != end && peek() != '\0') {
    const Mark mark = here();
    const char next = peek();
    if (next == '\\') {
      read_escape(in_quotes, text);
    } else if (next == '$') {
      read_expansion(in_quotes, text);
    } else if (next == '`') {
      skip_balanced('`', '`');
      put(text, "`...`", mark, true);
    } else if (end != '"' && (next == '"' || (next == '\'' && !in_quotes))) {
      read_quoted(text);
    } else {
      put(text, std::string(1, next), mark);
      advance();
    }
  }
  if (peek() == '\0') return fail(at, fmt::format("'{}' is missing behind this", end));
  advance();
}

// From `open` to behind its `close`; quotes in it hide both.
void ShellReader::skip_balanced(char open, char close) {
  const Mark at = here();
  advance();
  for (int depth = 1; depth > 0; advance()) {
    const char next = peek();
    if (next == '\0') return fail(at, fmt::format("this '{}' is never closed", open));
    if (next == '\\') {
      advance();
    } else if (open != '`' && (next == '\'' || next == '"')) {
      for (advance(); peek() != next && peek() != '\0'; advance())
        if (peek() == '\\' && next == '"') advance();
    } else if (next == close) {
      --depth;
    } else if (next == open) {
      ++depth;
    }
  }
}

void ShellReader::put_variable(const std::string& name, bool all, bool in_quotes, Mark at, ShellText& text) {
  const auto found = variables_.find(name);
  if (found == variables_.end()) return put(text, "$" + name, at, true);
  expanded_names_.insert(name);
  const ShellText value = expanded(found->second, in_quotes, all);
  expanded_ += value.size();
  if (expanded_ > most_expanded) return fail(at, too_long);
  text.insert(text.end(), value.begin(), value.end());
}

void ShellReader::read_arithmetic(ShellText& text) {
  const Mark at = here();
  const std::size_t end = text_.find("))", at_);
  if (end == std::string::npos) return fail(at, "this '$((' is never closed");
  // Parentheses of the expression itself may end where it does.
  std::size_t stop = end;
  while (stop + 2 < text_.size() && text_[stop + 2] == ')') ++stop;
  const std::string expression = text_.substr(at_ + 2, stop - at_ - 2);
  const std::optional<std::int64_t> value = shell_arithmetic(expression, variables_);
  put(text, value ? fmt::format("{}", *value) : "$((" + expression + "))", at, !value);
  advance(stop + 2 - at_);
}

void ShellReader::read_braced(bool in_quotes, ShellText& text) {
  const Mark at = here();
  advance();
  const std::string name = name_here();
  advance(name.size());
  if (name.empty())  // an argument of the script, ${1:-8}
    while (peek() >= '0' && peek() <= '9') advance();
  if (peek() == '}') {
    put_variable(name, false, in_quotes, at, text);
    return advance();
  }
  if (text_.compare(at_, 4, "[@]}") == 0 || text_.compare(at_, 4, "[*]}") == 0) {
    put_variable(name, true, in_quotes, at, text);
    return advance(4);
  }
  const bool colon = peek() == ':';
  const char what = peek(colon ? 1 : 0);
  if (what == '-' || what == '=') {
    advance(colon ? 2 : 1);
    ShellText fallback;
    if (++depth_ > deepest) return fail(at, "defaults within defaults, more than 50 deep");
    read_until('}', in_quotes, fallback);
    --depth_;
    const bool is_set = variables_.contains(name);
    if (is_set) expanded_names_.insert(name);
    const ShellText value =
        is_set ? expanded(variables_.at(name), in_quotes, false) : expanded({fallback}, in_quotes, false);
    text.insert(text.end(), value.begin(), value.end());
    return;
  }
  ShellText ignored;
  if (++depth_ > deepest) return fail(at, "expansions within expansions, more than 50 deep");
  read_until('}', in_quotes, ignored);
  --depth_;
  put(text, "${" + name + "...}", at, true);
}

void ShellReader::read_expansion(bool in_quotes, ShellText& text) {
  const Mark at = here();
  advance();
  const char next = peek();
  if (next == '(' && peek(1) == '(') return read_arithmetic(text);
  if (next == '(') {
    skip_balanced('(', ')');
    return put(text, "$(...)", at, true);
  }
  if (next == '{') return read_braced(in_quotes, text);
  if (const std::string name = name_here(); !name.empty()) {
    advance(name.size());
    return put_variable(name, false, in_quotes, at, text);
  }
  if (next == '@' || next == '*') return advance();  // the script is given no arguments
  if ((next >= '0' && next <= '9') || next == '#' || next == '?' || next == '$' || next == '!') {
    advance();
    return put(text, std::string("$") + next, at, true);
  }
  put(text, "$", at);
}

ShellValue ShellReader::array() {
  const Mark at = here();
  advance();
  ShellValue elements;
  for (;;) {
    skip_blanks();
    const char next = peek();
    if (next == '\0') {
      fail(at, "this '(' is never closed");
      return elements;
    }
    const bool is_word = !ends_a_word(next);
    if (!is_word) advance();
    if (next == ')') break;
    if (!is_word) continue;
    bool has_quotes = false;
    const ShellText raw = word(has_quotes);
    for (ShellText& element : split_words(raw, has_quotes)) elements.push_back(std::move(element));
  }
  was_array_ = true;
  return elements;
}

}  // namespace simrun
