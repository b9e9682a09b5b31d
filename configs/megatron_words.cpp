#include "configs/megatron_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "configs/config_node.h"
#include "configs/sbatch_lines.h"

namespace simrun {
namespace {

bool is_flag(const ShellWord& word) {
  return word.text.size() > 2 && word.text.starts_with("--") && word.text[2] != '-';
}

bool is_program(const ShellWord& word) { return word.text.ends_with(".py"); }

// torchrun takes --nproc_per_node as well as --nproc-per-node.
std::string launcher_name(std::string name) {
  std::ranges::replace(name, '_', '-');
  return name;
}

// Flags and the words behind each; --flag=value is both.
void add_flags(const std::vector<ShellWord>& words, bool of_launcher, std::vector<GivenFlag>& flags) {
  bool has_flag = false;
  for (const ShellWord& word : words) {
    if (!is_flag(word)) {
      if (has_flag) flags.back().values.push_back(word);
      continue;
    }
    has_flag = true;
    const std::size_t equals = word.text.find('=');
    const std::string name = word.text.substr(0, equals);
    flags.push_back({of_launcher ? launcher_name(name) : name, word.position, {}, word.is_conditional});
    if (equals == std::string::npos) continue;
    ShellWord value = word;
    value.text = word.text.substr(equals + 1);
    value.position.column += static_cast<int>(equals) + 1;
    flags.back().values.push_back(value);
  }
}

// Which word is the program; the number of words where none is, or no flag is behind it.
std::size_t program_of(const ShellCommand& command) {
  const std::vector<ShellWord>& words = command.words;
  const bool only_prints = words.front().text == "echo" || words.front().text == "printf";
  const auto program = std::ranges::find_if(words, is_program);
  if (only_prints || std::none_of(program, words.end(), is_flag)) return words.size();
  return static_cast<std::size_t>(program - words.begin());
}

std::string program_name(const ShellCommand& command) {
  const std::string& program = command.words[program_of(command)].text;
  return program.substr(program.rfind('/') + 1);
}

bool trains(const ShellCommand& command) { return program_name(command).starts_with("pretrain"); }

// Of those that start a Python program the ones that train; where none is named so, the last.
std::vector<ShellCommand> training_commands(const std::vector<ShellCommand>& commands) {
  std::vector<ShellCommand> python, training;
  for (const ShellCommand& command : commands)
    if (program_of(command) < command.words.size()) python.push_back(command);
  std::ranges::copy_if(python, std::back_inserter(training), trains);
  if (training.empty() && !python.empty()) training.push_back(python.back());
  return training;
}

// Commands in variables that something in the script uses. A file that runs nothing may only define its own.
std::vector<ShellCommand> held_commands(const ShellScript& script, bool runs_another) {
  std::vector<ShellCommand> used;
  std::ranges::copy_if(script.held_commands, std::back_inserter(used),
                       [&](const ShellCommand& of) { return script.expanded.contains(of.variable); });
  return used.empty() && !runs_another ? script.held_commands : used;
}

// A variable that holds what another one does, and more, holds the same command.
std::vector<ShellCommand> without_copies(const std::vector<ShellCommand>& held) {
  const auto place = [](const ShellCommand& of) { return of.words[program_of(of)].position; };
  std::vector<ShellCommand> kept;
  for (const ShellCommand& command : held) {
    std::erase_if(kept, [&](const ShellCommand& of) { return place(of) == place(command); });
    kept.push_back(command);
  }
  return kept;
}

// The launcher's flags, then the program's.
void add_command(const ShellCommand& command, MegatronWords& words) {
  const auto program = command.words.begin() + static_cast<std::ptrdiff_t>(program_of(command));
  std::vector<GivenFlag> all;
  add_flags({command.words.begin(), program}, /*of_launcher=*/true, all);
  // What else stands in front of the program is the launcher's own affair (srun --mpi=pmix).
  std::erase_if(all,
                [](const GivenFlag& of) { return of.name != "--nnodes" && of.name != "--nproc-per-node"; });
  add_flags({program + 1, command.words.end()}, /*of_launcher=*/false, all);
  words.flags.insert(words.flags.end(), all.begin(), all.end());
  words.program = program_name(command);
}

// A job is one run of one command.
void refuse_more_runs(const std::vector<ShellCommand>& commands, std::vector<Diagnostic>& problems) {
  const ShellWord& condition = commands.front().condition;
  if (condition.text == "for" || condition.text == "while" || condition.text == "until")
    problems.push_back({condition.position,
                        fmt::format("{} runs in this loop", program_name(commands.front())),
                        "a job is one run: its command without the loop, with one value of each variable."});
  else if (!condition.text.empty())
    problems.push_back({condition.position,
                        fmt::format("{} runs only under a condition whose outcome the file does not say",
                                    program_name(commands.front())),
                        "write its command outside of the condition."});
  const std::string first = program_name(commands.front());
  const int line = commands.front().position.line;
  for (std::size_t i = 1; i < commands.size(); ++i) {
    const std::string name = program_name(commands[i]);
    problems.push_back(
        {commands[i].position,
         name == first
             ? fmt::format("{} runs a second time; first it does on line {}", name, line)
             : fmt::format("{} is another training command; the first, {}, is on line {}", name, first, line),
         "a job is one run: leave one of the commands in the file."});
  }
}

// "#SBATCH --nodes=64" and "--gpus-per-node=8", which srun's tasks take for torchrun's.
void add_sbatch(const std::string& text, const std::string& file, std::vector<GivenFlag>& flags) {
  for (const SbatchOption& of : sbatch_options(text, file)) {
    const bool is_gpus = of.name == "gpus-per-node" || of.name == "gres";
    if (!is_gpus && of.name != "nodes") continue;
    flags.push_back({is_gpus ? "--nproc-per-node" : "--nnodes", of.position, {{of.value, of.position}}});
  }
}

MegatronWords words_of_script(const std::string& text, const std::string& file,
                              std::vector<Diagnostic>& problems) {
  const ShellScript script = read_shell(text, file, problems);
  MegatronWords words;
  add_sbatch(text, file, words.flags);
  const std::vector<ShellCommand> run = training_commands(script.commands);
  const std::vector<ShellCommand> held =
      without_copies(training_commands(held_commands(script, !run.empty())));
  const bool runs_held = !held.empty() && (run.empty() || (trains(held.front()) && !trains(run.front())));
  if (const std::vector<ShellCommand>& commands = runs_held ? held : run; !commands.empty()) {
    refuse_more_runs(commands, problems);
    add_command(commands.front(), words);
    return words;
  }
  add_flags(script.listed, /*of_launcher=*/false, words.flags);
  if (script.listed.empty())
    for (const ShellCommand& command : script.commands)
      add_flags(command.words, /*of_launcher=*/false, words.flags);
  for (GivenFlag& flag : words.flags)
    if (flag.name == "--nproc_per_node") flag.name = "--nproc-per-node";
  return words;
}

// Words of a scalar, "moe mlp" and "[moe, mlp]" alike.
void add_scalar(const ConfigNode& node, GivenFlag& flag) {
  std::string word;
  const auto end_word = [&] {
    if (!word.empty()) flag.values.push_back({word, node.position});
    word.clear();
  };
  for (const char character : node.text)
    if (character == ' ')
      end_word();
    else
      word += character;
  end_word();
  for (ShellWord& value : flag.values) value.is_unknown = value.text.find('$') != std::string::npos;
}

MegatronWords words_of_yaml(const std::string& text, const std::string& file,
                            std::vector<Diagnostic>& problems) {
  const ConfigNode root = read_yaml(text, file, problems);
  const ConfigNode* under = root.find("MODEL_ARGS");
  const ConfigNode& map = under != nullptr ? *under : root;
  MegatronWords words;
  for (const ConfigNode& entry : map.children) {
    GivenFlag flag{entry.key, entry.key_position, {}};
    if (entry.kind == ConfigNode::Kind::map || !flag.name.starts_with("--")) {
      if (under != nullptr)
        problems.push_back({entry.key_position, fmt::format("{} is no flag", in_quotes(entry.key)),
                            "flags begin with two dashes."});
      continue;
    }
    if (entry.kind == ConfigNode::Kind::scalar && !entry.quoted && entry.text == "false") continue;
    for (const ConfigNode& item : entry.children) add_scalar(item, flag);
    if (entry.kind == ConfigNode::Kind::scalar && (entry.quoted || entry.text != "true"))
      add_scalar(entry, flag);
    words.flags.push_back(std::move(flag));
  }
  return words;
}

}  // namespace

MegatronWords read_megatron_words(const std::string& text, const std::string& file,
                                  std::vector<Diagnostic>& problems) {
  const bool is_yaml = file.ends_with(".yaml") || file.ends_with(".yml");
  MegatronWords words = is_yaml ? words_of_yaml(text, file, problems) : words_of_script(text, file, problems);
  if (words.flags.empty() && problems.empty())
    problems.push_back({{file, 0, 0},
                        "no flag of Megatron-LM is in this file",
                        "a script that runs pretrain_gpt.py, arrays of arguments, or --flags."});
  return words;
}

}  // namespace simrun
