#include "cli/estimate_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "cli/estimate_form.h"
#include "configs/job_yaml.h"
#include "configs/presets.h"

namespace simrun {
namespace {

constexpr std::size_t most_values = 100;
constexpr std::size_t longest_value = 40;

constexpr std::string_view small_letters = "abcdefghijklmnopqrstuvwxyz";
constexpr std::string_view decimal_digits = "0123456789";

bool is_made_of(std::string_view text, std::string_view characters) {
  return !text.empty() && text.find_first_not_of(characters) == std::string_view::npos;
}

// A number or a boolean of the model, whichever its family has.
bool is_model_key(const std::string& key) {
  constexpr std::string_view section = "model.";
  return key.starts_with(section) &&
         is_made_of(std::string_view(key).substr(section.size()),
                    std::string(small_letters) + std::string(decimal_digits) + "_");
}

// Nothing in it can be a path: the loader judges the rest.
bool is_plain_value(const std::string& value) {
  return value.size() <= longest_value &&
         is_made_of(value, std::string(small_letters) + std::string(decimal_digits) + "_");
}

class RequestReader {
 public:
  explicit RequestReader(const EstimateSources& sources) : sources_(sources) {}

  void read(const ConfigNode& root) {
    for (const ConfigNode& child : root.children) {
      if (child.key == "base")
        read_base(child);
      else if (child.key == "set" && child.kind == ConfigNode::Kind::map &&
               child.children.size() <= most_values)
        for (const ConfigNode& value : child.children) read_value(value);
      else
        refuse(child.key, "a request has a base and a map of at most 100 values to set");
    }
  }

  EstimateRequest request;
  std::vector<Diagnostic> problems;

 private:
  void refuse(const std::string& key, std::string message, std::string hint = "") {
    problems.push_back({{key, 0, 0}, std::move(message), std::move(hint)});
  }

  void read_base(const ConfigNode& node) {
    const auto found = std::ranges::find(sources_.bases, node.text, &EstimateBase::name);
    if (found == sources_.bases.end())
      refuse("base", fmt::format("no job {}", in_quotes(node.text)));
    else
      request.base = static_cast<std::size_t>(found - sources_.bases.begin());
  }

  void read_value(const ConfigNode& node) {
    const std::string folder = preset_folder_of(node.key);
    if (node.kind != ConfigNode::Kind::scalar)
      refuse(node.key, fmt::format("must be one value, not {}", describe(node)));
    else if (!folder.empty())
      read_preset(node, folder);
    else if (!is_form_key(node.key) && !is_model_key(node.key))
      refuse(node.key, fmt::format("{} is no key of the form", in_quotes(node.key)));
    else if (!is_plain_value(node.text))
      refuse(node.key, fmt::format("{} is no number and no word of the config", in_quotes(node.text)));
    else
      request.values.push_back({node.key, node.text});
  }

  void read_preset(const ConfigNode& node, const std::string& folder) {
    const std::vector<std::string> names = preset_names(folder, sources_.load.preset_directories);
    if (std::ranges::find(names, node.text) != names.end()) {
      request.values.push_back({node.key, node.text});
      return;
    }
    const std::string meant = closest(node.text, names);
    refuse(node.key, fmt::format("no preset {} in {}/", in_quotes(node.text), folder),
           meant.empty() ? "" : fmt::format("did you mean '{}'?", meant));
  }

  const EstimateSources& sources_;
};

ConfigNode scalar_node(const std::string& key, const std::string& text) {
  ConfigNode node;
  node.kind = ConfigNode::Kind::scalar;
  node.key = key;
  node.text = text;
  return node;
}

// Another model or cluster brings its own numbers, another granularity its own keys: what was written beside
// the old one goes, but for the number of nodes.
bool replaces_section(const std::string& key) {
  return key == "model.from" || key == "cluster.from" || key == "recompute.granularity";
}

void replace_section(ConfigNode& root, const Override& value) {
  const std::string name = value.key.substr(0, value.key.find('.'));
  ConfigNode section;
  section.kind = ConfigNode::Kind::map;
  section.key = name;
  section.children.push_back(scalar_node(value.key.substr(name.size() + 1), value.value));
  ConfigNode* there = root.find(name);
  if (there == nullptr) {
    root.children.push_back(std::move(section));
    return;
  }
  const ConfigNode* nodes = there->find("nodes");
  if (nodes != nullptr && name == "cluster") section.children.push_back(*nodes);
  *there = std::move(section);
}

void set_value(ConfigNode& root, const Override& value) {
  // `optimizer:` with nothing behind it is no map yet.
  ConfigNode* section = root.find(value.key.substr(0, value.key.find('.')));
  if (section != nullptr && section->kind == ConfigNode::Kind::null) section->kind = ConfigNode::Kind::map;
  put_scalar(root, value.key, scalar_node("", value.value));
}

}  // namespace

EstimateRequest read_estimate_request(const EstimateSources& sources, const std::string& body) {
  RequestReader reader(sources);
  const ConfigNode root = read_yaml(body, "request", reader.problems);
  if (reader.problems.empty() && root.kind != ConfigNode::Kind::map)
    reader.problems.push_back({{"request", 0, 0}, "a request is a JSON object", ""});
  if (reader.problems.empty()) reader.read(root);
  if (!reader.problems.empty()) throw ConfigError(std::move(reader.problems));
  return std::move(reader.request);
}

std::string job_text_of(const EstimateSources& sources, const EstimateRequest& request) {
  const EstimateBase& base = sources.bases.at(request.base);
  if (request.values.empty()) return base.text;
  std::vector<Diagnostic> none;  // the base was loaded before
  ConfigNode root = read_yaml(base.text, base.file, none);
  for (const Override& value : request.values)
    if (replaces_section(value.key)) replace_section(root, value);
  for (const Override& value : request.values)
    if (!replaces_section(value.key)) set_value(root, value);
  return fmt::format("# {}, changed in simrun --serve\n", base.name) + job_yaml(root);
}

}  // namespace simrun
