#include "configs/diagnostics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <fstream>

namespace simrun {
namespace {

constexpr std::size_t widest_source_line = 160;

std::string where(const SourcePosition& position) {
  if (position.line <= 0) return position.file;
  return fmt::format("{}:{}:{}", position.file, position.line, std::max(position.column, 1));
}

// The text of one line without its line end, or "" when the file or the line is not there.
std::string source_line(const SourcePosition& position) {
  if (position.line <= 0) return "";
  std::ifstream file(position.file);
  std::string line;
  for (int number = 0; number < position.line; ++number)
    if (!std::getline(file, line)) return "";
  if (!line.empty() && line.back() == '\r') line.pop_back();
  return line;
}

bool continues_a_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

// The line and, under the byte at `column`, a caret. Bytes inside a UTF-8 character take no width; a line too
// long for a terminal is cut around the caret.
std::string excerpt(std::string line, std::size_t column) {
  std::size_t caret = column > 0 ? std::min(column - 1, line.size()) : 0;
  if (line.size() > widest_source_line) {
    std::size_t start = caret > widest_source_line / 2 ? caret - widest_source_line / 2 : 0;
    while (start > 0 && continues_a_character(line[start])) --start;
    line = line.substr(start, widest_source_line);
    caret -= start;
  }
  std::string padding;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const auto byte = static_cast<unsigned char>(line[i]);
    if ((byte < 0x20 && byte != '\t') || byte == 0x7f) line[i] = '?';
    if (i < caret && !continues_a_character(line[i])) padding += line[i] == '\t' ? '\t' : ' ';
  }
  return fmt::format("  {}\n  {}^\n", line, padding);
}

std::string first_message(const std::vector<Diagnostic>& diagnostics) {
  if (diagnostics.empty()) return "no problem was named";
  return fmt::format("{}: error: {}", where(diagnostics.front().position), diagnostics.front().message);
}

// Edits to turn one word into the other: insert, delete, replace, swap two neighbours.
std::size_t edit_distance(const std::string& left, const std::string& right) {
  std::vector<std::size_t> before(right.size() + 1), row(right.size() + 1), next(right.size() + 1);
  for (std::size_t j = 0; j <= right.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= left.size(); ++i) {
    next[0] = i;
    for (std::size_t j = 1; j <= right.size(); ++j) {
      const std::size_t replaced = row[j - 1] + (left[i - 1] == right[j - 1] ? 0U : 1U);
      next[j] = std::min({replaced, row[j] + 1, next[j - 1] + 1});
      if (i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1])
        next[j] = std::min(next[j], before[j - 2] + 1);
    }
    before = row;
    row = next;
  }
  return row[right.size()];
}

}  // namespace

ConfigError::ConfigError(std::vector<Diagnostic> diagnostics)
    : std::runtime_error(first_message(diagnostics)), diagnostics_(std::move(diagnostics)) {}

std::string render(const std::vector<Diagnostic>& diagnostics) {
  std::string text;
  for (const Diagnostic& diagnostic : diagnostics) {
    text += fmt::format("{}: error: {}\n", where(diagnostic.position), diagnostic.message);
    const std::string line = source_line(diagnostic.position);
    if (!line.empty())
      text += excerpt(line, static_cast<std::size_t>(std::max(diagnostic.position.column, 1)));
    if (!diagnostic.hint.empty()) text += fmt::format("  hint: {}\n", diagnostic.hint);
  }
  return text + fmt::format("{} error{}; nothing was run.\n", diagnostics.size(),
                            diagnostics.size() == 1 ? "" : "s");
}

std::string closest(const std::string& word, const std::vector<std::string>& candidates) {
  constexpr std::size_t furthest = 3;
  constexpr std::size_t longest_word = 100;
  std::string best;
  std::size_t best_distance = furthest + 1;
  if (word.size() > longest_word) return best;
  for (const std::string& candidate : candidates) {
    const std::size_t longer = std::max(word.size(), candidate.size());
    if (longer - std::min(word.size(), candidate.size()) > furthest) continue;
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance && 2 * distance < word.size()) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace simrun
