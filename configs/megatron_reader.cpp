#include "configs/megatron_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "configs/job_yaml.h"
#include "configs/limits.h"
#include "configs/numbers.h"

namespace simrun {
namespace {

constexpr std::array section_order{"model",     "training",  "parallelism", "moe",
                                   "optimizer", "recompute", "offload",     "cluster"};

ConfigNode scalar_node(const std::string& text, const SourcePosition& at) {
  ConfigNode node;
  node.kind = ConfigNode::Kind::scalar;
  node.text = text;
  node.position = node.key_position = at;
  return node;
}

}  // namespace

MegatronReader::MegatronReader(std::string file, MegatronWords words, std::vector<Diagnostic> problems)
    : file_(std::move(file)), words_(std::move(words)), problems_(std::move(problems)) {
  root_.kind = ConfigNode::Kind::map;
  root_.position = {file_, 0, 0};
  put_default("simrun", "1");
  for (const char* section : section_order) {
    ConfigNode node;
    node.kind = ConfigNode::Kind::map;
    node.key = section;
    node.position = node.key_position = {file_, 0, 0};
    root_.children.push_back(std::move(node));
  }
}

const GivenFlag* MegatronReader::find(const std::string& flag) const {
  const auto last = std::ranges::find(words_.flags.rbegin(), words_.flags.rend(), flag, &GivenFlag::name);
  return last == words_.flags.rend() ? nullptr : &*last;
}

SourcePosition MegatronReader::position_of(const std::string& flag) const {
  const GivenFlag* given = find(flag);
  return given == nullptr ? SourcePosition{file_, 0, 0} : given->position;
}

void MegatronReader::problem(const SourcePosition& at, std::string message, std::string hint) {
  problems_.push_back({at, std::move(message), std::move(hint)});
}

// Whether the file says that the flag is there, and what the word is.
bool MegatronReader::is_sound(const GivenFlag& flag, const ShellWord* word) {
  const bool is_conditional = flag.is_conditional || (word != nullptr && word->is_conditional);
  const bool is_unknown = word != nullptr && word->is_unknown;
  if (!is_conditional && !is_unknown) return true;
  if (!reported_.insert(flag.name).second) return false;
  if (is_conditional)
    problem(flag.position,
            fmt::format("{} stands under a condition whose outcome the file does not say", flag.name),
            "write it outside of the condition.");
  else
    problem(word->position,
            fmt::format("{}: the file does not say what {} is", flag.name, in_quotes(word->text)),
            "write its value in the file.");
  return false;
}

bool MegatronReader::is_on(const std::string& flag) {
  const GivenFlag* given = find(flag);
  if (given == nullptr) return false;
  const ShellWord* extra = given->values.empty() ? nullptr : &given->values.front();
  if (!is_sound(*given, extra)) return true;
  if (extra != nullptr && reported_.insert(flag).second)
    problem(extra->position, fmt::format("{} is a switch and takes no value", flag), "leave the value out.");
  return true;
}

std::optional<ShellWord> MegatronReader::value(const std::string& flag) {
  const GivenFlag* given = find(flag);
  if (given == nullptr) return std::nullopt;
  if (given->values.size() == 1)
    return is_sound(*given, &given->values.front()) ? std::optional(given->values.front()) : std::nullopt;
  if (reported_.insert(flag).second)
    problem(given->position, fmt::format("{} takes one value, not {}", flag, given->values.size()));
  return std::nullopt;
}

std::vector<ShellWord> MegatronReader::values(const std::string& flag) {
  const GivenFlag* given = find(flag);
  if (given == nullptr) return {};
  for (const ShellWord& word : given->values)
    if (!is_sound(*given, &word)) return {};
  if (given->values.empty() && reported_.insert(flag).second)
    problem(given->position, fmt::format("{} takes one value or more", flag));
  return given->values;
}

std::string MegatronReader::word(const std::string& flag, const std::string& fallback) {
  const std::optional<ShellWord> given = value(flag);
  return given ? given->text : fallback;
}

std::optional<std::int64_t> MegatronReader::number(const std::string& flag) {
  const std::optional<ShellWord> given = value(flag);
  return given ? parse_integer(given->text, limits::width).value : std::nullopt;
}

void MegatronReader::put(const std::string& path, const std::string& text, const SourcePosition& at) {
  put_scalar(root_, path, scalar_node(text, at));
}

void MegatronReader::put_list(const std::string& path, const std::vector<ShellWord>& words,
                              const SourcePosition& at) {
  ConfigNode list;
  list.kind = ConfigNode::Kind::sequence;
  list.position = list.key_position = at;
  for (const ShellWord& word : words) list.children.push_back(scalar_node(word.text, word.position));
  put_scalar(root_, path, std::move(list));
}

void MegatronReader::drop(const std::string& path) {
  const std::size_t dot = path.find('.');
  ConfigNode* section = root_.find(path.substr(0, dot));
  if (section != nullptr)
    std::erase_if(section->children, [&](const ConfigNode& of) { return of.key == path.substr(dot + 1); });
}

ConfigNode MegatronReader::take_tree() {
  std::erase_if(root_.children, [](const ConfigNode& section) {
    return section.kind == ConfigNode::Kind::map && section.children.empty();
  });
  return std::move(root_);
}

}  // namespace simrun
