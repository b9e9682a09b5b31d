#pragma once

#include <set>
#include <string>
#include <vector>

#include "configs/diagnostics.h"

namespace simrun {

// One word of a shell script as the shell would pass it on, and where its first character is written: a word
// that comes from a variable is where the variable's value is.
struct ShellWord {
  std::string text;
  SourcePosition position;
  // A variable of which the file does not say the value (its spelling, "$TP", stands in the text), or the
  // output of a command.
  bool is_unknown = false;
  // Whether it is there at all depends on a condition whose outcome the file does not say.
  bool is_conditional = false;
};

struct ShellCommand {
  std::vector<ShellWord> words;  // never none
  SourcePosition position;       // where the script begins to write it
  // The `for`, `if` or test that may keep it from running, or run it again; no text where none may.
  ShellWord condition;
  std::string variable = {};  // that holds it, where one does
};

struct ShellScript {
  std::vector<ShellCommand> commands;  // in order, without assignments
  // All words of arrays, and of variables whose value begins with a dash, in the order of their assignments:
  // the arguments of a file that starts nothing.
  std::vector<ShellWord> listed;
  // Values of variables that hold a whole command with a Python program, split into words.
  std::vector<ShellCommand> held_commands;
  std::set<std::string> expanded;  // names of the variables whose value something uses
};

// Reads what lists of arguments need of bash: comments, continuation lines, quotes, variables, arrays (`=`,
// `+=`, "${A[@]}"), defaults (${X:-8}; the environment has what #SBATCH lines put there, see sbatch_lines.h),
// $(( )) arithmetic, and conditions on strings ([ ] and [[ ]] with =, ==, !=, -z, -n, joined by && and ||).
// Of other conditions, loops and `case` all branches are read and marked. In the place of bash -c and eval
// stand the commands that they are given. Nothing behind an `exit` at the top is read. No command is run.
// Problems (a quote, bracket or parenthesis that is not closed) are appended.
ShellScript read_shell(const std::string& text, const std::string& file, std::vector<Diagnostic>& problems);

}  // namespace simrun
