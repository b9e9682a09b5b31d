// The layout section: the user's own rules of what is split over which axes. Whether the model has such
// dimensions and scopes is checked against its graph (schedules/layout_rules.h).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "configs/limits.h"
#include "configs/load_sections.h"

namespace simrun {
namespace {

const std::vector<std::string> parallel_axes = {"tp",       "cp",       "dp",       "ep",
                                                "etp",      "edp",      "cp_inner", "cp_outer",
                                                "ep_inner", "ep_outer", "dp_inner", "dp_outer"};
constexpr std::size_t most_rules = 1000;

bool is_word(const std::string& text) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  return !text.empty() && text.size() <= 100 && std::ranges::all_of(text, fits);
}

class LayoutReader {
 public:
  explicit LayoutReader(Reading& reading) : reading_(reading) {}

  LayoutConfig read(const ConfigNode& node) {
    reading_.positions["layout"] = node.position;
    if (node.kind == ConfigNode::Kind::sequence) {
      read_rules(node);
    } else if (node.kind != ConfigNode::Kind::map || node.children.empty()) {
      problem(node, fmt::format("'layout' must be a list of rules, not {}", describe(node)), example);
    } else if (node.find("mesh") == nullptr && node.find("rules") == nullptr) {
      read_rule(node);
    } else {
      refuse_other_keys(node, {"mesh", "rules"});
      if (const ConfigNode* mesh = node.find("mesh")) read_mesh(*mesh);
      if (const ConfigNode* rules = node.find("rules")) read_rules(*rules);
    }
    return std::move(layout_);
  }

 private:
  static constexpr const char* example = "layout: [{split: {heads: tp, batch: dp}}].";

  void problem(const ConfigNode& at, std::string message, std::string hint = "") {
    reading_.problems.push_back({at.position, std::move(message), std::move(hint)});
  }

  void refuse_other_keys(const ConfigNode& map, const std::vector<std::string>& known) {
    for (const ConfigNode& child : map.children) {
      if (std::ranges::find(known, child.key) != known.end()) continue;
      const std::string near = closest(child.key, known);
      reading_.problems.push_back({child.key_position,
                                   fmt::format("unknown key {} in a rule of 'layout'", in_quotes(child.key)),
                                   near.empty() ? fmt::format("it has {}.", fmt::join(known, ", "))
                                                : fmt::format("did you mean '{}'?", near)});
    }
  }

  void read_mesh(const ConfigNode& node) {
    layout_.mesh_position = node.position;
    reading_.positions["layout.mesh"] = node.position;
    if (node.kind != ConfigNode::Kind::map || node.children.empty())
      return problem(
          node, fmt::format("'layout.mesh' must be a map such as {{x: 2, y: 4}}, not {}", describe(node)));
    for (const ConfigNode& axis : node.children) {
      if (!is_word(axis.key) || std::ranges::find(parallel_axes, axis.key) != parallel_axes.end()) {
        reading_.problems.push_back({axis.key_position,
                                     fmt::format("{} cannot name an axis of a mesh", in_quotes(axis.key)),
                                     fmt::format("a word other than {}.", fmt::join(parallel_axes, ", "))});
        continue;
      }
      const Parsed<std::int64_t> size = parse_integer(axis.text, limits::parallel);
      if (axis.kind != ConfigNode::Kind::scalar || axis.quoted || !size.value)
        problem(axis,
                fmt::format("'layout.mesh.{}' must be a number of ranks, not {}", axis.key, describe(axis)));
      else
        layout_.mesh.push_back({axis.key, *size.value});
    }
  }

  void read_rules(const ConfigNode& node) {
    if (node.kind != ConfigNode::Kind::sequence || node.children.empty())
      return problem(node, "'layout' must have a list of rules", example);
    if (node.children.size() > most_rules)
      return problem(node, fmt::format("more than {} rules", most_rules),
                     "a scope may be a range or a pattern.");
    for (const ConfigNode& rule : node.children) read_rule(rule);
  }

  void read_rule(const ConfigNode& node) {
    if (node.kind != ConfigNode::Kind::map)
      return problem(node, fmt::format("a rule of 'layout' must be a map, not {}", describe(node)), example);
    refuse_other_keys(node, {"scope", "split", "replicate"});
    RegionRule rule;
    rule.position = node.position;
    if (const ConfigNode* scope = node.find("scope")) {
      rule.position = scope->position;
      if (std::optional<ScopePattern> read = read_scope(*scope, reading_)) rule.scope = std::move(*read);
    }
    const ConfigNode* split = node.find("split");
    const ConfigNode* replicate = node.find("replicate");
    if (is_count(split) || is_count(replicate)) {
      read_task_graph(split, replicate, rule);
    } else {
      if (split != nullptr) read_split(*split, rule);
      if (replicate != nullptr) read_replicate(*replicate, rule);
    }
    if (split == nullptr && replicate == nullptr)
      problem(node, "a rule of 'layout' needs 'split' or 'replicate'", example);
    layout_.rules.push_back(std::move(rule));
  }

  static bool is_count(const ConfigNode* node) {
    return node != nullptr && node->kind == ConfigNode::Kind::scalar && !node->text.empty() &&
           node->text.find_first_not_of("0123456789") == std::string::npos;
  }

  void read_task_graph(const ConfigNode* split, const ConfigNode* replicate, RegionRule& rule) {
    if (split != nullptr && replicate != nullptr)
      return problem(is_count(split) ? *split : *replicate,
                     "a rule with a number of ranks either splits or replicates",
                     "write two rules, each with its scope.");
    const ConfigNode& node = split != nullptr ? *split : *replicate;
    const Parsed<std::int64_t> count = parse_integer(node.text, limits::parallel);
    if (!count.value) return problem(node, fmt::format("a number of ranks: {}", count.problem), count.hint);
    using Kind = TaskGraph::Kind;
    rule.task_graph = {split != nullptr ? Kind::split : Kind::replicate, *count.value, node.position};
  }

  void add(RegionRule& rule, DimensionChoice choice) {
    const auto is_same = [&](const DimensionChoice& other) { return other.dim == choice.dim; };
    if (!is_word(choice.dim))
      reading_.problems.push_back(
          {choice.dim_position, fmt::format("{} cannot name a dimension", in_quotes(choice.dim)), ""});
    else if (std::ranges::any_of(rule.choices, is_same))
      reading_.problems.push_back(
          {choice.dim_position, fmt::format("the rule names the dimension '{}' twice", choice.dim), ""});
    else
      rule.choices.push_back(std::move(choice));
  }

  void read_split(const ConfigNode& node, RegionRule& rule) {
    if (node.kind != ConfigNode::Kind::map || node.children.empty())
      return problem(node, fmt::format("'split' must be a map of dimensions to axes, not {}", describe(node)),
                     "for example {heads: tp, sequence: [cp, tp]}.");
    for (const ConfigNode& entry : node.children) {
      DimensionChoice choice;
      choice.dim = entry.key;
      choice.dim_position = entry.key_position;
      if (entry.kind == ConfigNode::Kind::sequence)
        for (const ConfigNode& axis : entry.children) read_axis(axis, choice);
      else
        read_axis(entry, choice);
      if (entry.kind == ConfigNode::Kind::sequence && entry.children.empty())
        problem(entry, fmt::format("'{}' is split over no axis", entry.key),
                fmt::format("replicate: [{}].", entry.key));
      if (!choice.axes.empty()) add(rule, std::move(choice));
    }
  }

  void read_axis(const ConfigNode& node, DimensionChoice& choice) {
    std::vector<std::string> known = parallel_axes;
    for (const OwnAxis& own : layout_.mesh) known.push_back(own.name);
    if (node.kind != ConfigNode::Kind::scalar || std::ranges::find(known, node.text) == known.end()) {
      const std::string near = closest(node.text, known);
      return problem(node, fmt::format("there is no axis {}", describe(node)),
                     near.empty() ? fmt::format("one of {}.", fmt::join(known, ", "))
                                  : fmt::format("did you mean '{}'?", near));
    }
    if (std::ranges::find(choice.axes, node.text) != choice.axes.end())
      return problem(node, fmt::format("'{}' is split over '{}' twice", choice.dim, node.text),
                     "once is enough.");
    choice.axes.push_back(node.text);
    choice.axis_positions.push_back(node.position);
  }

  void read_replicate(const ConfigNode& node, RegionRule& rule) {
    const bool is_list = node.kind == ConfigNode::Kind::sequence && !node.children.empty();
    if (!is_list && node.kind != ConfigNode::Kind::scalar)
      return problem(node, fmt::format("'replicate' must be a list of dimensions, not {}", describe(node)));
    const auto read = [&](const ConfigNode& entry) {
      if (entry.kind != ConfigNode::Kind::scalar)
        return problem(entry, fmt::format("'replicate' lists dimensions, not {}", describe(entry)));
      add(rule, {entry.text, {}, entry.position, {}});
    };
    if (!is_list) return read(node);
    for (const ConfigNode& entry : node.children) read(entry);
  }

  Reading& reading_;
  LayoutConfig layout_;
};

std::string yaml_of(const DimensionChoice& choice) {
  if (choice.axes.size() == 1) return fmt::format("{}: {}", choice.dim, choice.axes.front());
  return fmt::format("{}: [{}]", choice.dim, fmt::join(choice.axes, ", "));
}

// In flow style, on one line.
std::string yaml_of(const RegionRule& rule) {
  std::vector<std::string> parts, split, replicate;
  if (!rule.scope.text.empty()) parts.push_back("scope: " + yaml_quoted(rule.scope.text));
  if (rule.task_graph.kind != TaskGraph::Kind::none)
    parts.push_back(fmt::format("{}: {}",
                                rule.task_graph.kind == TaskGraph::Kind::split ? "split" : "replicate",
                                rule.task_graph.count));
  for (const DimensionChoice& choice : rule.choices)
    (choice.axes.empty() ? replicate : split).push_back(choice.axes.empty() ? choice.dim : yaml_of(choice));
  if (!split.empty()) parts.push_back(fmt::format("split: {{{}}}", fmt::join(split, ", ")));
  if (!replicate.empty()) parts.push_back(fmt::format("replicate: [{}]", fmt::join(replicate, ", ")));
  return fmt::format("{{{}}}", fmt::join(parts, ", "));
}

}  // namespace

void read_layout(const ConfigNode* section, Reading& reading, Job& job) {
  if (section == nullptr) return;
  job.layout = LayoutReader(reading).read(*section);
  std::vector<std::string> mesh, rules;
  for (const OwnAxis& axis : job.layout.mesh) mesh.push_back(fmt::format("{}: {}", axis.name, axis.size));
  for (const RegionRule& rule : job.layout.rules) rules.push_back(yaml_of(rule));
  const std::string origin = origin_of(section->position);
  if (!mesh.empty()) reading.record("layout.mesh", fmt::format("{{{}}}", fmt::join(mesh, ", ")), origin);
  if (!rules.empty()) reading.record("layout.rules", fmt::format("[{}]", fmt::join(rules, ", ")), origin);
}

}  // namespace simrun
