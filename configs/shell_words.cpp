#include "configs/shell_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "configs/shell_reader.h"

namespace simrun {
namespace {

// What a block of commands between if and fi, do and done, case and esac is: read, left out, or perhaps.
struct Block {
  Truth runs = Truth::yes;
  bool had_branch = false;    // of if: one that is taken for certain
  bool may_have_had = false;  // one of which it is not known
};

enum class Separator : std::uint8_t { line, both, either, pipe, end };

Truth all_of(Truth left, Truth right) {
  if (left == Truth::no || right == Truth::no) return Truth::no;
  return left == Truth::yes && right == Truth::yes ? Truth::yes : Truth::unknown;
}
Truth any_of(Truth left, Truth right) { return negated(all_of(negated(left), negated(right))); }

const std::set<std::string> skipped_words = {"export", "local", "readonly", "declare", "typeset", "then",
                                             "do",     "{",     "}",        "time",    "function"};

class ScriptReader {
 public:
  ScriptReader(const std::string& text, const std::string& file, std::vector<Diagnostic>& problems)
      : reader_(text, file, problems), file_(file) {}

  ShellScript read() {
    while (reader_.skip_to_command()) {
      const Separator separator = read_command();
      if (reader_.has_failed()) break;
      // Commands are taken to succeed; tests say themselves.
      next_runs_ = separator == Separator::both     ? outcome_
                   : separator == Separator::either ? negated(outcome_)
                                                    : Truth::yes;
    }
    return std::move(script_);
  }

 private:
  Truth runs() const {
    Truth truth = next_runs_;
    for (const Block& block : blocks_) truth = all_of(truth, block.runs);
    return truth;
  }

  // One simple command up to what separates it from the next, with what it assigns or begins.
  Separator read_command() {
    std::vector<ShellText> words;
    outcome_ = Truth::yes;
    for (;;) {
      const Separator separator = read_separator();
      if (separator != Separator::pipe || reader_.has_failed()) return finish(words, separator);
      if (words.empty() && read_assignment()) continue;
      bool has_quotes = false;
      const ShellText raw = reader_.word(has_quotes);
      if (words.empty() && !has_quotes && begins_block(characters_of(raw))) return Separator::line;
      if (words.empty() && !has_quotes && skipped_words.contains(characters_of(raw))) continue;
      for (ShellText& word : split_words(raw, has_quotes)) words.push_back(std::move(word));
    }
  }

  // Separator::pipe: none, a word follows.
  Separator read_separator() {
    reader_.skip_blanks();
    reader_.skip_redirected_number();
    const char next = reader_.peek();
    if (next == '\0') return Separator::end;
    if (next == '\n' || next == ';' || next == '(' || next == ')') {
      reader_.advance();
      return Separator::line;
    }
    const bool redirects_both = next == '&' && reader_.peek(1) == '>';
    if ((next == '&' || next == '|') && !redirects_both) {
      reader_.advance();
      if (reader_.peek() != next) return Separator::line;
      reader_.advance();
      return next == '&' ? Separator::both : Separator::either;
    }
    if (next != '<' && next != '>' && !redirects_both) return Separator::pipe;
    reader_.skip_redirection();
    return read_separator();
  }

  Separator finish(std::vector<ShellText>& words, Separator separator) {
    if (words.empty()) return separator;
    const std::string first = characters_of(words.front());
    const std::string last = characters_of(words.back());
    if (first == "[" || first == "[[" || first == "test" || first == "!" || last == "]]")
      outcome_ = shell_test(words);
    const Truth here = runs();
    if (here == Truth::no) return separator;
    ShellCommand command;
    for (const ShellText& word : words) command.push_back(made_word(word, here));
    script_.commands.push_back(std::move(command));
    return separator;
  }

  ShellWord made_word(const ShellText& text, Truth here) const {
    ShellWord word;
    word.text = characters_of(text);
    word.position.file = file_;
    if (!text.empty()) {
      word.position.line = text.front().line;
      word.position.column = text.front().column;
    }
    word.is_unknown = std::ranges::any_of(text, &ShellCharacter::is_unknown);
    word.is_conditional =
        here == Truth::unknown || std::ranges::any_of(text, &ShellCharacter::is_conditional);
    return word;
  }

  // NAME=value, NAME+=value, NAME=(words).
  bool read_assignment() {
    const std::string name = reader_.assigned_name();
    if (name.empty()) return false;
    const bool appends = reader_.peek() == '+';
    reader_.advance(appends ? 2 : 1);
    const Truth here = runs();
    ShellValue value;
    if (reader_.peek() == '(') {
      value = reader_.array();
    } else {
      bool has_quotes = false;
      value = {reader_.word(has_quotes)};
    }
    if (here == Truth::no) return true;
    for (ShellText& element : value)
      for (ShellCharacter& one : element) one.is_conditional |= here == Truth::unknown;
    ShellValue& variable = reader_.variables()[name];
    if (appends && value.size() == 1 && variable.size() == 1 && !reader_.was_array())
      variable.front().insert(variable.front().end(), value.front().begin(), value.front().end());
    else if (appends)
      variable.insert(variable.end(), value.begin(), value.end());
    else
      variable = value;
    keep(value);
    return true;
  }

  // What a script without a command that is understood gives: lists of arguments, and commands in variables.
  void keep(const ShellValue& value) {
    const ShellText whole = expanded(value, /*in_quotes=*/false, /*all_elements=*/true);
    std::vector<ShellWord> words;
    for (const ShellText& word : split_words(whole, false)) words.push_back(made_word(word, Truth::yes));
    if (words.empty()) return;
    if (words.front().text.starts_with("-"))
      script_.listed.insert(script_.listed.end(), words.begin(), words.end());
    else if (words.size() > 1 && characters_of(whole).find(".py") != std::string::npos)
      script_.held_commands.push_back(std::move(words));
  }

  // True: the word began, went on with or ended a block, and is read with what belongs to it.
  bool begins_block(const std::string& word) {
    if (word == "if") {
      blocks_.emplace_back();
      take_branch(condition());
    } else if (word == "elif") {
      if (!blocks_.empty()) blocks_.back().runs = Truth::yes;  // for the condition's own sake
      take_branch(condition());
    } else if (word == "else") {
      take_branch(Truth::yes);
    } else if (word == "while" || word == "until" || word == "case" || word == "for" || word == "select") {
      blocks_.push_back({Truth::unknown, false});
      if (word == "for" || word == "select") forget_loop_variable();
    } else if (word == "fi" || word == "done" || word == "esac") {
      if (!blocks_.empty()) blocks_.pop_back();
    } else {
      return false;
    }
    return true;
  }

  void take_branch(Truth holds) {
    if (blocks_.empty()) return;
    Block& block = blocks_.back();
    block.runs = block.had_branch ? Truth::no : block.may_have_had ? all_of(holds, Truth::unknown) : holds;
    if (holds == Truth::yes) block.had_branch = true;
    if (holds == Truth::unknown) block.may_have_had = true;
  }

  // The commands between if and then.
  Truth condition() {
    Truth truth = Truth::yes;
    Separator before = Separator::both;
    while (reader_.skip_to_command() && !reader_.has_failed() && !reader_.is_at_word("then")) {
      const Separator separator = read_command();
      truth = before == Separator::either ? any_of(truth, outcome_) : all_of(truth, outcome_);
      before = separator;
    }
    return truth;
  }

  void forget_loop_variable() {
    reader_.skip_blanks();
    bool has_quotes = false;
    const std::string name = characters_of(reader_.word(has_quotes));
    reader_.variables().erase(name);
  }

  ShellReader reader_;
  const std::string& file_;
  ShellScript script_;
  std::vector<Block> blocks_;
  Truth next_runs_ = Truth::yes;
  Truth outcome_ = Truth::yes;  // of the last command
};

}  // namespace

ShellScript read_shell(const std::string& text, const std::string& file, std::vector<Diagnostic>& problems) {
  return ScriptReader(text, file, problems).read();
}

}  // namespace simrun
