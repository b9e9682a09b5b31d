#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "configs/diagnostics.h"
#include "configs/shell_text.h"

namespace simrun {

// The characters of a shell script from front to back: words with their quotes removed and their variables
// expanded, as far as their values are known by then (configs/shell_words.h says what of bash is read).
class ShellReader {
 public:
  ShellReader(const std::string& text, const std::string& file, std::vector<Diagnostic>& problems)
      : text_(text), file_(file), problems_(problems) {}
  // Of a script that is a word of `outer`'s: its characters, `text` too, have their places there, and what is
  // known of them; variables have the values that they have there by now.
  ShellReader(const std::string& text, const ShellText& source, const ShellReader& outer);
  // What reading such a script has cost; `keeps_variables`: also what it assigned.
  void take_back(ShellReader& inner, bool keeps_variables);

  bool has_failed() const { return has_failed_; }  // a problem was reported; what follows means nothing
  char peek(std::size_t ahead = 0) const;          // '\0' at the end
  void advance(std::size_t count = 1);

  void skip_blanks();             // spaces, continued lines, a comment
  bool skip_to_command();         // also line ends and `;`; false at the end
  void skip_redirected_number();  // 2 of 2>
  void skip_redirection();
  SourcePosition position() const { return {file_, here().line, here().column}; }
  bool is_at_word(const std::string& word) const;
  std::string assigned_name();  // NAME where NAME= or NAME+= is here, and passed up to the sign; else ""
  ShellText word(bool& has_quotes);
  ShellValue array();                            // from its '(' to behind its ')'
  bool was_array() const { return was_array_; }  // what was read last as a value

  std::map<std::string, ShellValue>& variables() { return variables_; }
  const std::set<std::string>& expanded_names() const { return expanded_names_; }

 private:
  struct Mark {
    int line = 0, column = 0;
  };
  Mark here() const;
  void fail(Mark at, const std::string& message);
  void put(ShellText& text, const std::string& characters, Mark at, bool is_unknown = false) const;
  void read_quoted(ShellText& text);
  // Up to `end`, which is passed: what stands between the quotes, or behind ${NAME:-.
  void read_until(char end, bool in_quotes, ShellText& text);
  void read_escape(bool in_quotes, ShellText& text);
  void read_expansion(bool in_quotes, ShellText& text);
  void read_braced(bool in_quotes, ShellText& text);
  void read_arithmetic(ShellText& text);
  void skip_balanced(char open, char close);
  void put_variable(const std::string& name, bool all, bool in_quotes, Mark at, ShellText& text);
  std::string name_here() const;

  const std::string& text_;
  const std::string& file_;
  std::vector<Diagnostic>& problems_;
  const ShellText* source_ = nullptr;  // of the characters of text_, where they are not the file's own
  std::size_t at_ = 0;
  int line_ = 1, column_ = 1;
  bool has_failed_ = false;
  bool was_array_ = false;
  int depth_ = 0;                            // of ${A:-${B:-...}} and of scripts within scripts
  std::size_t expanded_ = 0;                 // characters that variables have stood for
  std::vector<std::string> here_documents_;  // whose text begins behind this line
  std::map<std::string, ShellValue> variables_;
  std::set<std::string> expanded_names_;  // of variables that had a value
};

}  // namespace simrun
