#include "configs/megatron_words.h"

#include <fmt/format.h>

#include <algorithm>

#include "configs/config_node.h"

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

// Of a command line that starts a Python program: the launcher's flags, then the program's.
bool add_command(const ShellCommand& command, MegatronWords& words) {
  const auto program = std::ranges::find_if(command, is_program);
  if (program == command.end()) return false;
  const std::vector<ShellWord> arguments(program + 1, command.end());
  if (std::ranges::none_of(arguments, is_flag)) return false;
  std::vector<GivenFlag> all;
  add_flags({command.begin(), program}, /*of_launcher=*/true, all);
  // What else stands in front of the program is the launcher's own affair (srun --mpi=pmix).
  std::erase_if(all,
                [](const GivenFlag& of) { return of.name != "--nnodes" && of.name != "--nproc-per-node"; });
  add_flags(arguments, /*of_launcher=*/false, all);
  words.flags.insert(words.flags.end(), all.begin(), all.end());
  words.program = program->text.substr(program->text.rfind('/') + 1);
  return true;
}

// "#SBATCH --nodes=64" and "--gpus-per-node=8", which srun's tasks take for torchrun's.
void add_sbatch(const std::string& text, const std::string& file, std::vector<GivenFlag>& flags) {
  struct Name {
    const char* written;
    const char* meant;
  };
  constexpr Name names[] = {{"--nodes", "--nnodes"}, {"--gpus-per-node", "--nproc-per-node"}};
  int line = 1;
  for (std::size_t begin = 0; begin < text.size(); ++line) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string row = text.substr(begin, end - begin);
    begin = end + 1;
    if (!row.starts_with("#SBATCH ")) continue;
    for (const Name& name : names) {
      const std::size_t at = row.find(name.written);
      const std::size_t value = at == std::string::npos ? at : at + std::string(name.written).size();
      if (at == std::string::npos || value >= row.size() || (row[value] != '=' && row[value] != ' '))
        continue;
      const std::size_t stop = row.find_first_of(" \t\r", value + 1);
      const SourcePosition position{file, line, static_cast<int>(value) + 2};
      flags.push_back({name.meant, position, {{row.substr(value + 1, stop - value - 1), position}}});
    }
  }
}

MegatronWords words_of_script(const std::string& text, const std::string& file,
                              std::vector<Diagnostic>& problems) {
  const ShellScript script = read_shell(text, file, problems);
  MegatronWords words;
  add_sbatch(text, file, words.flags);
  bool starts = false;
  for (const ShellCommand& command : script.commands) starts |= add_command(command, words);
  if (starts) return words;
  for (const ShellCommand& command : script.held_commands) starts |= add_command(command, words);
  if (starts) return words;
  add_flags(script.listed, /*of_launcher=*/false, words.flags);
  if (script.listed.empty())
    for (const ShellCommand& command : script.commands)
      add_flags(command, /*of_launcher=*/false, words.flags);
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
