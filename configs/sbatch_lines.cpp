#include "configs/sbatch_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <sstream>
#include <string_view>

#include "configs/limits.h"
#include "configs/numbers.h"

namespace simrun {
namespace {

struct OptionName {
  std::string_view written;
  std::string_view meant;
};
constexpr OptionName option_names[] = {{"--nodes", "nodes"},
                                       {"-N", "nodes"},
                                       {"--ntasks", "ntasks"},
                                       {"-n", "ntasks"},
                                       {"--ntasks-per-node", "ntasks-per-node"},
                                       {"--gpus-per-node", "gpus-per-node"},
                                       {"--gres", "gres"}};

// Of "--nodes=64", "-N64" and "-N" the characters up to the value; nothing of another option.
std::optional<std::size_t> length_of_name(const std::string& word, std::string_view name) {
  if (!word.starts_with(name)) return std::nullopt;
  if (word.size() == name.size() || !name.starts_with("--")) return name.size();
  return word[name.size()] == '=' ? std::optional(name.size() + 1) : std::nullopt;
}

struct PlacedWord {
  std::string text;
  int column = 0;
};

std::vector<PlacedWord> words_of_row(const std::string& row) {
  std::vector<PlacedWord> words;
  for (std::size_t at = 0; (at = row.find_first_not_of(" \t\r", at)) != std::string::npos;) {
    const std::size_t end = std::min(row.find_first_of(" \t\r", at), row.size());
    if (row[at] == '#' && at > 0) break;  // a comment behind the options
    words.push_back({row.substr(at, end - at), static_cast<int>(at) + 1});
    at = end;
  }
  return words;
}

// Of an element of --gres that is GPUs: gpu:h100:8 -> 8, gpu:8 -> 8; gpu:h100 and gpu are one.
std::string count_in_element(const std::string& element) {
  const std::size_t colon = element.find(':');
  if (colon == std::string::npos) return "1";
  const std::string count = element.substr(element.rfind(':') + 1);
  const bool is_type = element.find(':', colon + 1) == std::string::npos && !count.empty() &&
                       std::isalnum(static_cast<unsigned char>(count.front())) != 0 &&
                       count.find_first_not_of("0123456789") != std::string::npos;
  return is_type ? "1" : count;
}

// GPUs alone, without their type: h100:8 -> 8. Several types in one node have no one count: they stay as they
// are written, which is no number.
std::optional<std::string> count_of_gpus(const std::string& name, const std::string& value) {
  if (name != "gres" && name != "gpus-per-node") return value;
  if (name == "gpus-per-node")
    return value.find(',') == std::string::npos ? value.substr(value.rfind(':') + 1) : value;
  std::optional<std::string> count;
  std::istringstream elements(value);
  for (std::string element; std::getline(elements, element, ',');) {
    if (element != "gpu" && !element.starts_with("gpu:")) continue;
    if (count) return value;
    count = count_in_element(element);
  }
  return count;
}

void add_options_of_row(const std::vector<PlacedWord>& words, SourcePosition position,
                        std::vector<SbatchOption>& options) {
  for (std::size_t i = 1; i < words.size(); ++i) {
    for (const OptionName& name : option_names) {
      const std::optional<std::size_t> length = length_of_name(words[i].text, name.written);
      if (!length) continue;
      const bool is_behind = *length == words[i].text.size() && !words[i].text.ends_with('=');
      if (is_behind && i + 1 == words.size()) continue;
      const PlacedWord& holder = is_behind ? words[i + 1] : words[i];
      const std::size_t begin = is_behind ? 0 : *length;
      position.column = holder.column + static_cast<int>(begin);
      if (const auto value = count_of_gpus(std::string(name.meant), holder.text.substr(begin)))
        options.push_back({std::string(name.meant), *value, position});
    }
  }
}

}  // namespace

std::vector<SbatchOption> sbatch_options(const std::string& text, const std::string& file) {
  std::vector<SbatchOption> options;
  std::istringstream rows(text);
  std::string row;
  for (int line = 1; std::getline(rows, row); ++line)
    if (row.starts_with("#SBATCH ") || row.starts_with("#SBATCH\t"))
      add_options_of_row(words_of_row(row), {file, line, 1}, options);
  return options;
}

std::vector<SlurmVariable> slurm_variables(const std::string& text, const std::string& file) {
  struct Meaning {
    std::string_view option;
    const char* variable;
  };
  constexpr Meaning meanings[] = {{"nodes", "SLURM_NNODES"},
                                  {"nodes", "SLURM_JOB_NUM_NODES"},
                                  {"gpus-per-node", "SLURM_GPUS_PER_NODE"},
                                  {"gpus-per-node", "SLURM_GPUS_ON_NODE"},
                                  {"gres", "SLURM_GPUS_ON_NODE"},
                                  {"ntasks-per-node", "SLURM_NTASKS_PER_NODE"},
                                  {"ntasks", "SLURM_NTASKS"},
                                  {"ntasks", "SLURM_NPROCS"}};
  std::vector<SlurmVariable> variables;
  std::map<std::string, std::int64_t> numbers;
  SourcePosition last;
  for (const SbatchOption& of : sbatch_options(text, file)) {
    const std::optional<std::int64_t> number = parse_integer(of.value, {1, limits::world}).value;
    if (!number) continue;  // "2-4": how many it will be nobody knows
    numbers[of.name] = *number;
    last = of.position;
    for (const Meaning& meaning : meanings)
      if (meaning.option == of.name) variables.push_back({meaning.variable, of.value, of.position});
  }
  if (numbers.contains("ntasks") || !numbers.contains("nodes") || !numbers.contains("ntasks-per-node"))
    return variables;
  const std::string tasks = fmt::format("{}", numbers["nodes"] * numbers["ntasks-per-node"]);
  for (const char* name : {"SLURM_NTASKS", "SLURM_NPROCS"}) variables.push_back({name, tasks, last});
  return variables;
}

}  // namespace simrun
