#include "configs/shell_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "configs/sbatch_lines.h"
#include "configs/shell_reader.h"

namespace simrun {
namespace {

// What a block of commands between if and fi, do and done, case and esac is: read, left out, or perhaps.
struct Block {
  ShellWord begin;  // if, for ...
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

// Whether commands joined by && and || have succeeded so far, from left to right.
struct Chain {
  Truth truth = Truth::yes;
  Separator before = Separator::both;

  void add(Truth outcome, Separator behind) {
    truth = before == Separator::either ? any_of(truth, outcome) : all_of(truth, outcome);
    before = behind;
  }
};

const std::set<std::string> skipped_words = {"export", "local", "readonly", "declare", "typeset", "then",
                                             "do",     "{",     "}",        "time",    "function"};

const std::set<std::string> shell_names = {"bash", "sh", "zsh", "dash"};

// Where the words of a script within a command begin: behind bash -c (-lc, -euo pipefail -c), or behind eval.
// The number of words where there is none.
std::size_t begin_of_script(const std::vector<ShellText>& words) {
  if (characters_of(words.front()) == "eval") return 1;
  bool of_shell = false, takes_script = false;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string word = characters_of(words[i]);
    const bool is_option = of_shell && (word.starts_with('-') || word.starts_with('+') || word == "pipefail");
    if (takes_script && !is_option) return i;
    takes_script |=
        is_option && word.starts_with('-') && !word.starts_with("--") && word.find('c') != std::string::npos;
    of_shell = is_option || shell_names.contains(word.substr(word.rfind('/') + 1));
  }
  return words.size();
}

class ScriptReader {
 public:
  ScriptReader(const std::string& text, const std::string& file, std::vector<Diagnostic>& problems)
      : reader_(text, file, problems), file_(file) {
    for (const SlurmVariable& of : slurm_variables(text, file)) {
      ShellText value;
      for (const char character : of.value)
        value.push_back({.character = character, .line = of.position.line, .column = of.position.column});
      reader_.variables()[of.name] = {value};
    }
  }

  ShellScript read() {
    Chain chain;
    bool follows_chain = false;
    while (reader_.skip_to_command()) {
      const Separator separator = read_command();
      if (reader_.has_failed()) break;
      // Commands are taken to succeed; tests say themselves.
      chain.add(outcome_, separator);
      const bool goes_on = separator == Separator::both || separator == Separator::either;
      next_runs_ = separator == Separator::either ? negated(chain.truth) : chain.truth;
      if (!goes_on && ends_ && !follows_chain) break;
      follows_chain = goes_on;
      if (goes_on) continue;
      next_runs_ = Truth::yes;
      chain = {};
    }
    script_.expanded = reader_.expanded_names();
    return std::move(script_);
  }

 private:
  // Of a script that is a word of another one.
  ScriptReader(const std::string& text, const ShellText& source, const ScriptReader& outer)
      : reader_(text, source, outer.reader_), file_(outer.file_) {
    blocks_.push_back({.begin = outer.unsure(), .runs = outer.runs()});
  }

  Truth runs() const {
    Truth truth = next_runs_;
    for (const Block& block : blocks_) truth = all_of(truth, block.runs);
    return truth;
  }

  // What may keep a command from running here, or run it again.
  ShellWord unsure() const {
    for (const Block& block : blocks_)
      if (block.runs == Truth::unknown) return block.begin;
    return next_runs_ == Truth::unknown ? tested_ : ShellWord{};
  }

  // One simple command up to what separates it from the next, with what it assigns or begins.
  Separator read_command() {
    std::vector<ShellText> words;
    written_.clear();
    ends_ = false;
    outcome_ = Truth::yes;
    for (;;) {
      const Separator separator = read_separator();
      if (separator != Separator::pipe || reader_.has_failed()) return finish(words, separator);
      if (words.empty() && read_assignment()) continue;
      if (words.empty()) command_at_ = reader_.position();
      bool has_quotes = false;
      const ShellText raw = reader_.word(has_quotes);
      if (!has_quotes) count_brace(characters_of(raw), words.empty());
      if (words.empty() && !has_quotes && begins_block(characters_of(raw))) return Separator::line;
      if (words.empty() && !has_quotes && skipped_words.contains(characters_of(raw))) continue;
      const std::size_t number = written_.empty() ? 0 : written_.back() + 1;
      for (ShellText& word : split_words(raw, has_quotes)) words.push_back(std::move(word));
      written_.resize(words.size(), number);
    }
  }

  // Separator::pipe: none, a word follows.
  Separator read_separator() {
    reader_.skip_blanks();
    reader_.skip_redirected_number();
    const char next = reader_.peek();
    if (next == '\0') return Separator::end;
    if (next == '\n' || next == ';' || next == '(' || next == ')') {
      if (next == '(') ++open_;
      if (next == ')' && open_ > 0) --open_;
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
    if (words.empty() || reader_.has_failed()) return separator;
    const std::string first = characters_of(words.front());
    const std::string last = characters_of(words.back());
    if (first == "[" || first == "[[" || first == "test" || first == "!" || last == "]]") {
      outcome_ = shell_test(words);
      if (outcome_ == Truth::unknown && next_runs_ != Truth::unknown) tested_ = {first, command_at_};
    }
    const Truth here = runs();
    if (here == Truth::no) return separator;
    ends_ = first == "exit" && is_at_top();
    if (const std::size_t begin = begin_of_script(words); begin < words.size()) {
      read_inner(words, begin);
      return separator;
    }
    ShellCommand command{{}, command_at_, unsure()};
    for (const ShellText& word : words) command.words.push_back(made_word(word, here));
    script_.commands.push_back(std::move(command));
    return separator;
  }

  // Braces and parentheses are no blocks, so that an `exit` in a function or subshell must be told apart; it
  // is indented as well, mostly.
  bool is_at_top() const { return blocks_.empty() && open_ == 0 && command_at_.column == 1; }
  void count_brace(const std::string& word, bool begins_command) {
    if (word == "{") ++open_;
    if (word == "}" && begins_command && open_ > 0) --open_;
  }

  // The words from `begin` on, of a command, are a script. More than one are joined by spaces, as eval does.
  // To bash -c the others are $0 and arguments, but "${A[@]}" in its script is meant like "${A[*]}".
  void read_inner(const std::vector<ShellText>& words, std::size_t begin) {
    const bool is_eval = characters_of(words.front()) == "eval";
    ShellText source;
    for (std::size_t i = begin; i < words.size(); ++i) {
      if (!is_eval && written_[i] != written_[begin]) break;
      if (!source.empty()) source.push_back({' ', source.back().line, source.back().column});
      source.insert(source.end(), words[i].begin(), words[i].end());
    }
    const std::string text = characters_of(source);
    ScriptReader inner(text, source, *this);
    ShellScript script = inner.read();
    reader_.take_back(inner.reader_, /*keeps_variables=*/is_eval);
    std::ranges::move(script.commands, std::back_inserter(script_.commands));
    std::ranges::move(script.listed, std::back_inserter(script_.listed));
    std::ranges::move(script.held_commands, std::back_inserter(script_.held_commands));
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
    keep(name, value);
    return true;
  }

  // What a script without a command that is understood gives: lists of arguments, and commands in variables.
  void keep(const std::string& name, const ShellValue& value) {
    const ShellText whole = expanded(value, /*in_quotes=*/false, /*all_elements=*/true);
    std::vector<ShellWord> words;
    for (const ShellText& word : split_words(whole, false)) words.push_back(made_word(word, Truth::yes));
    if (words.empty()) return;
    if (words.front().text.starts_with("-"))
      script_.listed.insert(script_.listed.end(), words.begin(), words.end());
    else if (words.size() > 1 && characters_of(whole).find(".py") != std::string::npos)
      script_.held_commands.push_back({words, words.front().position, {}, name});
  }

  // True: the word began, went on with or ended a block, and is read with what belongs to it.
  bool begins_block(const std::string& word) {
    if (word == "if") {
      blocks_.push_back({.begin = {word, command_at_}});
      take_branch(condition());
    } else if (word == "elif") {
      if (!blocks_.empty()) blocks_.back().runs = Truth::yes;  // for the condition's own sake
      take_branch(condition());
    } else if (word == "else") {
      take_branch(Truth::yes);
    } else if (word == "while" || word == "until" || word == "case" || word == "for" || word == "select") {
      blocks_.push_back({.begin = {word, command_at_}, .runs = Truth::unknown});
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
    Chain chain;
    while (reader_.skip_to_command() && !reader_.has_failed() && !reader_.is_at_word("then")) {
      const Separator separator = read_command();
      chain.add(outcome_, separator);
    }
    return chain.truth;
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
  std::vector<std::size_t> written_;  // of each word of a command, which of those written in it it is of
  int open_ = 0;                      // braces and parentheses
  bool ends_ = false;                 // the last command is an `exit` that nothing keeps from running
  Truth next_runs_ = Truth::yes;
  Truth outcome_ = Truth::yes;  // of the last command
  ShellWord tested_;            // the first word of the test that next_runs_ hangs on
  SourcePosition command_at_;   // where the command begins that is being read
};

}  // namespace

ShellScript read_shell(const std::string& text, const std::string& file, std::vector<Diagnostic>& problems) {
  return ScriptReader(text, file, problems).read();
}

}  // namespace simrun
