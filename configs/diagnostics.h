#pragma once

#include <stdexcept>
#include <string>
#include <vector>

namespace simrun {

// Where in which text. Lines and columns count from 1; line 0 means the file as a whole (or no file: a
// command-line flag).
struct SourcePosition {
  std::string file;
  int line = 0;
  int column = 0;
  // clang-tidy 14 takes the defaulted comparison for a null pointer.
  auto operator<=>(const SourcePosition&) const = default;  // NOLINT(modernize-use-nullptr)
};

// One thing the user must change. `hint` is one whole suggestion, or empty.
struct Diagnostic {
  SourcePosition position;
  std::string message;
  std::string hint;
};

// Thrown once, after all of an input was read, with everything that is wrong in it. The program exits with 2.
class ConfigError : public std::runtime_error {
 public:
  explicit ConfigError(std::vector<Diagnostic> diagnostics);
  const std::vector<Diagnostic>& diagnostics() const { return diagnostics_; }

 private:
  std::vector<Diagnostic> diagnostics_;
};

// "file:line:col: error: message", the source line with a caret under the column, "  hint: ...", for each;
// closes with "N errors; nothing was run.". Reads the named files again for the source lines (a line that
// cannot be read is left out).
std::string render(const std::vector<Diagnostic>& diagnostics);

// The nearest candidate within 3 edits (and less than half the word's length), or "": never a guess further
// away.
std::string closest(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace simrun
