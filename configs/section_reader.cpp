#include "configs/section_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "configs/key_hints.h"

namespace simrun {
namespace {

bool is_name_character(char character) {
  return (character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z') ||
         (character >= '0' && character <= '9') || character == '.' || character == '_' || character == '-';
}

bool is_name(const std::string& text) {
  return !text.empty() && text.size() <= 100 && std::ranges::all_of(text, is_name_character);
}

// `cluster: dgx_h100` means `cluster: {from: dgx_h100}`.
std::string hint_for_no_map(const std::string& path, const ConfigNode& node) {
  const bool has_presets = path == "cluster" || path == "model";
  const bool is_number = parse_real(node.text, {0, 1e18}).value.has_value();
  if (!has_presets || is_number || !is_name(node.text)) return "";
  return fmt::format("write {}: {{from: {}}}.", path, node.text);
}

// What somebody who wrote yes or Off meant.
std::string hint_for_no_boolean(const ConfigNode& node) {
  std::string word = node.text;
  for (char& letter : word)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  for (const char* yes : {"true", "yes", "on", "y", "1"})
    if (word == yes) return "write true.";
  for (const char* no : {"false", "no", "off", "n", "0"})
    if (word == no) return "write false.";
  return "";
}

std::string last_part(const std::string& path) { return path.substr(path.rfind('.') + 1); }

}  // namespace

SectionReader::SectionReader(Reading& reading, const ConfigNode* section, std::string path)
    : reading_(reading), section_(section), path_(std::move(path)), is_partial_(reading.is_partial(path_)) {
  if (section_ == nullptr) return;
  if (!section_->key.empty()) reading_.positions[path_] = section_->key_position;
  if (section_->kind == ConfigNode::Kind::scalar || section_->kind == ConfigNode::Kind::sequence) {
    reading_.problems.push_back(
        {section_->position, fmt::format("'{}' must be a map of keys, not {}", path_, describe(*section_)),
         hint_for_no_map(path_, *section_)});
    reading_.refused.insert(path_);
    section_ = nullptr;
    is_no_map_ = true;
  }
}

bool SectionReader::has(const std::string& key) const {
  const ConfigNode* node = section_ == nullptr ? nullptr : section_->find(key);
  return node != nullptr && node->kind != ConfigNode::Kind::null;
}

const ConfigNode* SectionReader::find(const std::string& key) {
  known_.push_back(key);
  return has(key) ? section_->find(key) : nullptr;
}

void SectionReader::bad(const std::string& key, const std::string& message, const std::string& hint) {
  reading_.refused.insert(path_of(key));
  reading_.problem(path_of(key), message, hint);
}

void SectionReader::wrote(const std::string& key, const ConfigNode& node, const std::string& value) {
  reading_.record(path_of(key), value, origin_of(node.position));
}

void SectionReader::defaulted(const std::string& key, const std::string& value) {
  reading_.record(path_of(key), value, "default");
}

const ConfigNode* SectionReader::scalar(const std::string& key, bool required, const char* expected) {
  const ConfigNode* node = find(key);
  if (node == nullptr) {
    const ConfigNode* null = section_ == nullptr ? nullptr : section_->find(key);
    if (null != nullptr && required) reading_.positions[path_of(key)] = null->key_position;
    if (required && !is_no_map_ && !is_partial_)
      bad(key, fmt::format("missing required key '{}' in '{}'", key, path_),
          fmt::format("{}: {}.", key, expected));
    return nullptr;
  }
  reading_.positions[path_of(key)] = node->position;
  if (node->kind == ConfigNode::Kind::scalar) return node;
  bad(key, fmt::format("'{}' must be {}, not {}", path_of(key), expected, describe(*node)), "");
  return nullptr;
}

std::int64_t SectionReader::integer(const std::string& key, IntegerRange range,
                                    std::optional<std::int64_t> fallback) {
  reading_.rules[path_of(key)] = {KeyRule::Kind::integer, range.least, range.most, {}};
  const ConfigNode* node = scalar(key, !fallback, "a whole number");
  if (node == nullptr) {
    if (!fallback || has(key)) return 0;
    defaulted(key, fmt::format("{}", *fallback));
    return *fallback;
  }
  if (node->quoted) {
    bad(key, fmt::format("'{}' must be a whole number, not {}", path_of(key), describe(*node)),
        "remove the quotes.");
    return 0;
  }
  const Parsed<std::int64_t> parsed = parse_integer(node->text, range);
  if (!parsed.value) {
    bad(key, fmt::format("'{}': {}", path_of(key), parsed.problem), parsed.hint);
    return 0;
  }
  wrote(key, *node, fmt::format("{}", *parsed.value));
  return *parsed.value;
}

std::vector<std::int64_t> SectionReader::integers(const std::string& key, IntegerRange range,
                                                  std::size_t count) {
  const ConfigNode* node = find(key);
  if (node == nullptr) {
    bad(key, fmt::format("missing required key '{}' in '{}'", key, path_), "");
    return {};
  }
  reading_.positions[path_of(key)] = node->position;
  if (node->kind != ConfigNode::Kind::sequence || node->children.size() != count) {
    bad(key, fmt::format("'{}' must be a list of {} whole numbers", path_of(key), count), "");
    return {};
  }
  std::vector<std::int64_t> values;
  for (const ConfigNode& child : node->children) {
    const Parsed<std::int64_t> parsed =
        parse_integer(child.quoted ? "\"" + child.text + "\"" : child.text, range);
    if (!parsed.value) {
      reading_.problems.push_back(
          {child.position, fmt::format("'{}': {}", path_of(key), parsed.problem), parsed.hint});
      return {};
    }
    values.push_back(*parsed.value);
  }
  wrote(key, *node, fmt::format("[{}]", fmt::join(values, ", ")));
  return values;
}

double SectionReader::real(const std::string& key, RealRange range, std::optional<double> fallback) {
  const ConfigNode* node = scalar(key, !fallback, "a number");
  if (node == nullptr) {
    if (!fallback || has(key)) return 0;
    defaulted(key, fmt::format("{:.10g}", *fallback));
    return *fallback;
  }
  const Parsed<double> parsed = parse_real(node->quoted ? "\"" + node->text + "\"" : node->text, range);
  if (!parsed.value) {
    bad(key, fmt::format("'{}': {}", path_of(key), parsed.problem), parsed.hint);
    return 0;
  }
  wrote(key, *node, fmt::format("{}", *parsed.value));
  return *parsed.value;
}

bool SectionReader::boolean(const std::string& key, std::optional<bool> fallback) {
  reading_.rules[path_of(key)] = {KeyRule::Kind::boolean, 0, 0, {}};
  const ConfigNode* node = scalar(key, !fallback, "true or false");
  if (node == nullptr) {
    if (!fallback || has(key)) return false;
    defaulted(key, *fallback ? "true" : "false");
    return *fallback;
  }
  if (node->quoted || (node->text != "true" && node->text != "false")) {
    bad(key, fmt::format("'{}' must be true or false, not {}", path_of(key), describe(*node)),
        hint_for_no_boolean(*node));
    return false;
  }
  wrote(key, *node, node->text);
  return node->text == "true";
}

std::string SectionReader::checked_word(const std::string& key, const ConfigNode& node,
                                        const WordRule& rule) {
  const std::string one_of = fmt::format("one of {}.", fmt::join(rule.accepted, ", "));
  if (std::ranges::find(rule.accepted, node.text) != rule.accepted.end()) return node.text;
  if (!rule.file_ending.empty() && node.text.ends_with(rule.file_ending)) return node.text;
  reading_.refused.insert(path_of(key));
  if (const auto known = rule.refused.find(node.text); known != rule.refused.end()) {
    reading_.problems.push_back({node.position, known->second, one_of});
    return "";
  }
  if (std::ranges::find(rule.not_yet, node.text) != rule.not_yet.end()) {
    reading_.problems.push_back(
        {node.position, fmt::format("{} for '{}' is not supported yet", in_quotes(node.text), path_of(key)),
         one_of});
    return "";
  }
  const std::string meant = rule.may_guess ? closest(node.text, rule.accepted) : "";
  const std::string what = node.kind == ConfigNode::Kind::scalar ? in_quotes(node.text) : describe(node);
  reading_.problems.push_back({node.position, fmt::format("'{}' cannot be {}", path_of(key), what),
                               meant.empty() ? one_of : fmt::format("did you mean '{}'?", meant)});
  return "";
}

std::string SectionReader::word(const std::string& key, const WordRule& rule,
                                std::optional<std::string> fallback) {
  reading_.rules[path_of(key)] = {KeyRule::Kind::word, 0, 0, rule.accepted};
  const ConfigNode* node =
      scalar(key, !fallback, fmt::format("one of {}", fmt::join(rule.accepted, ", ")).c_str());
  if (node == nullptr) {
    if (!fallback || has(key)) return "";
    defaulted(key, *fallback);
    return *fallback;
  }
  std::string value = checked_word(key, *node, rule);
  if (!value.empty()) wrote(key, *node, value);
  return value;
}

std::vector<std::string> SectionReader::words(const std::string& key, const WordRule& rule,
                                              std::vector<std::string> fallback) {
  const ConfigNode* node = find(key);
  if (node == nullptr) {
    defaulted(key, fmt::format("[{}]", fmt::join(fallback, ", ")));
    return fallback;
  }
  reading_.positions[path_of(key)] = node->position;
  std::vector<std::string> values;
  if (node->kind != ConfigNode::Kind::sequence || node->children.empty()) {
    bad(key,
        fmt::format("'{}' must be a list such as [{}], not {}", path_of(key), rule.accepted.front(),
                    node->children.empty() && node->kind == ConfigNode::Kind::sequence ? "an empty list"
                                                                                       : describe(*node)),
        "");
    return values;
  }
  for (const ConfigNode& child : node->children) {
    const std::string value = checked_word(key, child, rule);
    if (value.empty()) continue;
    if (!rule.may_repeat && std::ranges::find(values, value) != values.end())
      reading_.problems.push_back({child.position, fmt::format("'{}' is listed twice", value), ""});
    else
      values.push_back(value);
  }
  wrote(key, *node, fmt::format("[{}]", fmt::join(values, ", ")));
  return values;
}

std::vector<std::int64_t> SectionReader::integer_list(const std::string& key, IntegerRange range,
                                                      std::vector<std::int64_t> fallback) {
  const ConfigNode* node = find(key);
  if (node == nullptr || node->kind == ConfigNode::Kind::null) {
    defaulted(key, fmt::format("[{}]", fmt::join(fallback, ", ")));
    return fallback;
  }
  reading_.positions[path_of(key)] = node->position;
  std::vector<std::int64_t> values;
  const std::size_t problems = reading_.problems.size();
  if (node->kind != ConfigNode::Kind::sequence || node->children.empty()) {
    bad(key, fmt::format("'{}' must be a list of whole numbers, not {}", path_of(key), describe(*node)), "");
    return values;
  }
  for (const ConfigNode& child : node->children) {
    const Parsed<std::int64_t> parsed = parse_integer(child.text, range);
    if (child.kind == ConfigNode::Kind::scalar && !child.quoted && parsed.value)
      values.push_back(*parsed.value);
    else
      reading_.problems.push_back({child.position,
                                   child.kind == ConfigNode::Kind::scalar && !child.quoted
                                       ? fmt::format("'{}': {}", path_of(key), parsed.problem)
                                       : fmt::format("'{}' must be a list of whole numbers, not of {}",
                                                     path_of(key), describe(child)),
                                   parsed.hint});
  }
  if (reading_.problems.size() > problems) return {};
  wrote(key, *node, fmt::format("[{}]", fmt::join(values, ", ")));
  return values;
}

std::string SectionReader::name(const std::string& key, const std::string& fallback) {
  const ConfigNode* node = scalar(key, /*required=*/false, "a name");
  if (node == nullptr) {
    std::string plain = fallback.substr(0, 100);
    std::ranges::replace_if(
        plain, [](char character) { return !is_name_character(character); }, '_');
    if (!has(key)) defaulted(key, yaml_quoted(plain));
    return plain;
  }
  if (!is_name(node->text)) {
    bad(key, fmt::format("'{}' must be of letters, digits and ._-, not {}", path_of(key), describe(*node)),
        "");
    return "";
  }
  wrote(key, *node, yaml_quoted(node->text));
  return node->text;
}

std::string SectionReader::text(const std::string& key) {
  const ConfigNode* node = scalar(key, /*required=*/false, "text");
  if (node == nullptr) return "";
  if (node->quoted && node->position.line > 0) ++reading_.positions[path_of(key)].column;
  if (!std::ranges::all_of(node->text, is_printable)) {
    bad(key, fmt::format("'{}' must be one line of ASCII", path_of(key)), "");
    return "";
  }
  wrote(key, *node, yaml_quoted(node->text));
  return node->text;
}

double SectionReader::quantity(const std::string& key, Unit unit, RealRange range,
                               std::optional<std::string> fallback) {
  const ConfigNode* node = scalar(key, !fallback, "a number and its unit");
  if (node == nullptr) {
    if (!fallback || has(key)) return 0;
    defaulted(key, *fallback);
    return parse_quantity(*fallback, unit, range).value.value_or(Quantity{}).value;
  }
  const Parsed<Quantity> parsed = parse_quantity(node->text, unit, range);
  if (!parsed.value) {
    bad(key, fmt::format("'{}': {}", path_of(key), parsed.problem), parsed.hint);
    return 0;
  }
  wrote(key, *node, parsed.value->text);
  return parsed.value->value;
}

const ConfigNode* SectionReader::section(const std::string& key) { return find(key); }

void SectionReader::ignore(const std::vector<std::string>& keys) {
  known_.insert(known_.end(), keys.begin(), keys.end());
}

void SectionReader::finish() {
  if (section_ == nullptr) return;
  for (const ConfigNode& child : section_->children) {
    if (std::ranges::find(known_, child.key) != known_.end()) continue;
    reading_.problems.push_back({child.key_position,
                                 fmt::format("unknown key {} in '{}'", in_quotes(child.key), path_),
                                 hint_for_unknown_key(last_part(path_), child.key, known_)});
  }
}

}  // namespace simrun
