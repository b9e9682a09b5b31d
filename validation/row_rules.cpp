#include "validation/row_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "configs/config_node.h"
#include "configs/limits.h"
#include "configs/numbers.h"
#include "configs/text_file.h"
#include "validation/hardware_text.h"
#include "validation/text_pattern.h"

namespace simrun {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> rule_keys = {"match", "unless", "where", "reason",
                                            "like",  "cells",  "job",   "facts"};
//   keys            spelling of the model's keys: see validation/model_block.cpp
//   flops           how a printed FLOP/s or MFU counts: see validation/claimed_flops.h
//   formula         none: of a rule for words that have no formula among them
//   usual_flops     of rows that do not say it: likewise
//   peak            FLOP/s that an MFU is a share of: TFLOP/s, or a precision
//   framework       the profile of configs/frameworks that it runs on, if there is one
//   ffn_per_hidden  width of the MLPs and experts of rows that do not say it, in hidden sizes
//   gated           yes; no; by_size: Llama's or Mixtral's layers where the model's name says as many
//                   parameters as they have, and no other layers do (validation/named_size.h);
//                   by_size_or_experts: likewise, or of a gated MLP's width, or experts of bf16 or fp8
//   sized           decoder: one stack of layers, so that a size makes dimensions of rows that print none
//                   (validation/dimensions_by_size.h)
//   tied            "no": input and output embedding are two matrices; "yes": they are one
//   recomputed_layers  "1/2": of every stage's layers, whole, where the row's recompute is selective
//   zero_stage      what the framework shards, where it is not what the row's number says
//   shard_ranks     data-parallel ranks that share one copy of what ZeRO or FSDP shards
//   memory_unit     GiB or GB
//   memory_kind     allocated, reserved or nvidia_smi
//   memory_rank     worst, last, first
//   stages          layers of pipeline stages: by_cost, by_module, by_operator (validation/stage_layers.h)
//   first_stage_layers, last_stage_layers  likewise, as numbers
//   stage_layout    likewise, as Megatron-LM's --pipeline-model-parallel-layout
//   shared_expert   width of the expert that all tokens pass, beside gated ones that are routed
//   dense_ffn_of_first  width of the first layer's MLP, where that one has no experts
//   fp32_products   tf32: products of rows in fp32 are the tensor cores'
//   head_dim        elements of a head, where they are not hidden / heads
//   recompute       as_needed: of rows that do not say it, everything where the job does not fit without
//   microbatches    "64..1024": powers of two of which the source printed the fastest, of rows that do
//                   not say it; "tuned": the number is the fastest, with a power of two for a microbatch
//   mamba, delta_nets  it has layers of such; hybrid: the preset or family says which those are
//   unsupported     a feature that no job can say
//   link_rate       of links.yaml: what one link carries per direction, "100 Gb/s"
//   set             the set of rows that it is scored in, instead of the others
const std::vector<std::string> fact_names = {"keys",
                                             "flops",
                                             "formula",
                                             "usual_flops",
                                             "peak",
                                             "framework",
                                             "ffn_per_hidden",
                                             "gated",
                                             "sized",
                                             "tied",
                                             "recomputed_layers",
                                             "memory_unit",
                                             "memory_kind",
                                             "memory_rank",
                                             "mamba",
                                             "delta_nets",
                                             "hybrid",
                                             "unsupported",
                                             "set",
                                             "shard_ranks",
                                             "zero_stage",
                                             "stages",
                                             "first_stage_layers",
                                             "last_stage_layers",
                                             "stage_layout",
                                             "shared_expert",
                                             "shared_experts",
                                             "dense_ffn_of_first",
                                             "head_dim",
                                             "fp32_products",
                                             "link_rate",
                                             "recompute",
                                             "microbatches"};

Parsed<Quantity> link_rate(const std::string& text) {
  return parse_quantity(text, Unit::bytes_per_second, limits::bandwidth);
}

class RuleFile {
 public:
  // `reads_where`: its rules may ask for cells.
  RuleFile(std::string path, bool reads_where, std::vector<Diagnostic>& problems)
      : path_(std::move(path)), reads_where_(reads_where), problems_(problems) {}

  std::vector<RowRule> read() {
    const TextFile file = read_text_file(path_);
    std::vector<RowRule> rules;
    if (!file.text) {
      problems_.push_back({{path_, 0, 0},
                           "cannot read this file: " + file.reason,
                           "the one that simrun comes with is in its configs/validation."});
      return rules;
    }
    const ConfigNode root = read_yaml(*file.text, path_, problems_);
    if (is_map(root))
      for (const ConfigNode& node : root.children) {
        rules.push_back(rule(node));
        if (const ConfigNode* like = node.find("like")) inherit(*like, rules);
      }
    return rules;
  }

 private:
  void refuse(const ConfigNode& node, std::string message, std::string hint = "") {
    problems_.push_back({node.position, std::move(message), std::move(hint)});
  }
  bool is_map(const ConfigNode& node) {
    if (node.kind != ConfigNode::Kind::map) refuse(node, "a rule file is maps, not " + describe(node));
    return node.kind == ConfigNode::Kind::map;
  }
  void refuse_key(const ConfigNode& node, const std::vector<std::string>& known) {
    const std::string meant = closest(node.key, known);
    problems_.push_back({node.key_position, "unknown key " + in_quotes(node.key),
                         meant.empty() ? "" : fmt::format("did you mean '{}'?", meant)});
  }

  RowRule rule(const ConfigNode& node) {
    RowRule rule;
    rule.name = node.key;
    rule.position = node.key_position;
    if (!is_map(node)) return rule;
    for (const ConfigNode& child : node.children) {
      if (child.key == "match")
        rule.match = texts(child);
      else if (child.key == "unless")
        rule.unless = texts(child);
      else if (child.key == "reason")
        rule.reason = child.text;
      else if (child.key == "where")
        read_where(child, rule);
      else if (child.key == "cells")
        read_cells(child, rule.cells);
      else if (child.key == "job")
        read_job(child, rule);
      else if (child.key == "facts")
        read_facts(child, rule);
      else if (child.key != "like")
        refuse_key(child, rule_keys);
    }
    if (rule.match.empty())
      refuse(node, fmt::format("rule '{}' matches nothing", rule.name), "write match: [..].");
    if (rule.reason.empty())
      refuse(node, fmt::format("rule '{}' gives no reason", rule.name), "write reason: ..");
    return rule;
  }

  // What the last rule does not say, it takes from the one that it names.
  void inherit(const ConfigNode& like, std::vector<RowRule>& rules) {
    RowRule& to = rules.back();
    const auto from = std::ranges::find(rules, like.text, &RowRule::name);
    if (from == rules.end() || &*from == &to)
      return refuse(like, fmt::format("no rule {} above this one", in_quotes(like.text)));
    add_missing(from->where, to.where);
    add_missing(from->cells, to.cells);
    add_missing(from->job, to.job);
    to.facts.insert(from->facts.begin(), from->facts.end());
  }
  template <typename Pairs>
  static void add_missing(const Pairs& from, Pairs& to) {
    for (const auto& pair : from)
      if (std::ranges::none_of(to, [&](const auto& own) { return own.first == pair.first; }))
        to.push_back(pair);
  }

  std::vector<std::string> texts(const ConfigNode& node) {
    std::vector<std::string> texts;
    if (node.kind == ConfigNode::Kind::scalar) texts.push_back(node.text);
    for (const ConfigNode& child : node.children) texts.push_back(child.text);
    if (std::ranges::find(texts, "") != texts.end()) refuse(node, "an empty text is in every row");
    return texts;
  }

  void read_cells(const ConfigNode& node, std::vector<std::pair<Column, std::string>>& cells) {
    static const std::vector<std::string> known(column_names().begin(), column_names().end());
    if (!is_map(node)) return;
    for (const ConfigNode& child : node.children)
      if (const std::optional<Column> column = column_named(child.key))
        cells.emplace_back(*column, child.text);
      else
        refuse_key(child, known);
  }

  void read_where(const ConfigNode& node, RowRule& rule) {
    if (!reads_where_) return refuse(node, "only rules of notes.yaml and frameworks.yaml have 'where'");
    read_cells(node, rule.where);
    for (const ConfigNode& child : node.children)
      if (child.kind != ConfigNode::Kind::scalar || child.text.empty())
        refuse(child, fmt::format("'{}' must be a number, as 16 or 16+, or a text", child.key));
  }

  void read_job(const ConfigNode& node, RowRule& rule) {
    if (!is_map(node)) return;
    for (const ConfigNode& child : node.children)
      if (child.kind == ConfigNode::Kind::scalar)
        rule.job.emplace_back(child.key, child.text);
      else
        refuse(child, fmt::format("'{}' must be one value, as YAML in quotes", child.key));
  }

  void read_facts(const ConfigNode& node, RowRule& rule) {
    if (!is_map(node)) return;
    for (const ConfigNode& child : node.children) {
      if (std::ranges::find(fact_names, child.key) != fact_names.end())
        rule.facts[child.key] = child.text;
      else
        refuse_key(child, fact_names);
      if (child.key != "link_rate") continue;
      if (const Parsed<Quantity> rate = link_rate(child.text); !rate.value)
        refuse(child, fmt::format("'link_rate': {}", rate.problem), rate.hint);
    }
  }

  std::string path_;
  bool reads_where_;
  std::vector<Diagnostic>& problems_;
};

void fill_in(std::string& text, const std::string& captured) {
  for (std::size_t at = text.find("{}"); at != std::string::npos; at = text.find("{}", at + captured.size()))
    text.replace(at, 2, captured);
}

// Of flops.yaml: for every row, whichever formula it has.
bool says_peak_alone(const RowRule& rule) { return rule.facts.size() == 1 && rule.facts.contains("peak"); }

// Of links.yaml: a generation for each of a rule's names. What is no rate was refused where it stands.
std::vector<LinkGeneration> link_generations(const std::vector<RowRule>& rules,
                                             std::vector<Diagnostic>& problems) {
  std::vector<LinkGeneration> generations;
  for (const RowRule& rule : rules) {
    const auto fact = rule.facts.find("link_rate");
    if (fact == rule.facts.end() || rule.facts.size() > 1 || !rule.unless.empty() || !rule.cells.empty() ||
        !rule.job.empty()) {
      problems.push_back({rule.position, fmt::format("rule '{}' must be names and a link_rate", rule.name),
                          "write match: [..] and facts: {link_rate: 100 Gb/s}."});
      continue;
    }
    const double rate = link_rate(fact->second).value.value_or(Quantity{}).value;
    for (const std::string& name : rule.match) {
      const auto holds = [&](const LinkGeneration& above) {
        return lower_case(name).find(above.name) != std::string::npos;
      };
      if (const auto above = std::ranges::find_if(generations, holds); above != generations.end())
        problems.push_back({rule.position,
                            fmt::format("'{}' is never found: '{}' above is in it", name, above->name),
                            "put the longer name first."});
      generations.push_back({lower_case(name), rate});
    }
  }
  return generations;
}

using Matcher = std::optional<std::string> (*)(const std::string& pattern, const std::string& text);

std::optional<RowRule> applied_by(Matcher matcher, const RowRule& rule, const std::string& text) {
  const auto is_said = [&](const std::string& pattern) { return matched(pattern, text).has_value(); };
  if (std::ranges::any_of(rule.unless, is_said)) return std::nullopt;
  for (const std::string& pattern : rule.match) {
    const std::optional<std::string> captured = matcher(pattern, text);
    if (!captured) continue;
    RowRule filled = rule;
    for (auto& [column, value] : filled.cells) fill_in(value, *captured);
    for (auto& [key, value] : filled.job) fill_in(value, *captured);
    for (auto& [key, value] : filled.facts) fill_in(value, *captured);
    return filled;
  }
  return std::nullopt;
}

}  // namespace

bool holds_where(const RowRule& rule, const MeasuredRow& row) {
  return std::ranges::all_of(rule.where, [&](const auto& condition) {
    const auto& [column, asked] = condition;
    if (asked == "absent") return row[column].empty();
    const bool is_at_least = asked.ends_with('+');
    const std::string number = asked.substr(0, asked.size() - (is_at_least ? 1 : 0));
    if (number.empty() || number.find_first_not_of("0123456789") != std::string::npos)
      return matched(asked, row[column]).has_value();
    if (!is_at_least) return row[column] == number;
    const std::optional<std::int64_t> found = row.integer(column);
    return found && *found >= std::strtoll(number.c_str(), nullptr, 10);
  });
}

std::optional<RowRule> applied(const RowRule& rule, const std::string& text) {
  return applied_by(matched, rule, text);
}

std::optional<RowRule> applied_to_notes(const RowRule& rule, const std::string& notes) {
  return applied_by(said, rule, notes);
}

std::optional<RowRule> first_applied(const std::vector<RowRule>& rules, const std::string& text) {
  for (const RowRule& rule : rules)
    if (std::optional<RowRule> found = applied(rule, text)) return found;
  return std::nullopt;
}

RowRules load_row_rules(const LoadOptions& options) {
  std::string folder;
  for (const std::string& directory : options.preset_directories) {
    std::error_code ignored;
    const fs::path candidate = fs::path(directory) / "validation";
    if (folder.empty() && fs::is_directory(candidate, ignored)) folder = candidate.string();
  }
  if (folder.empty())
    throw ConfigError(
        {{{"validation/", 0, 0}, "no preset directory has this folder", "set SIMRUN_CONFIGS."}});
  std::vector<Diagnostic> problems;
  const auto read = [&](const char* name) {
    return RuleFile((fs::path(folder) / name).string(),
                    name == std::string("notes.yaml") || name == std::string("frameworks.yaml"), problems)
        .read();
  };
  RowRules rules{read("sources.yaml"),    read("hardware.yaml"),
                 read("models.yaml"),     read("flops.yaml"),
                 read("notes.yaml"),      {},
                 read("frameworks.yaml"), {}};
  rules.links = link_generations(read("links.yaml"), problems);
  if (!problems.empty()) throw ConfigError(std::move(problems));
  std::ranges::copy_if(rules.flops, std::back_inserter(rules.peaks), says_peak_alone);
  std::erase_if(rules.flops, says_peak_alone);
  for (RowRule& rule : rules.hardware)
    for (std::string& pattern : rule.match) pattern = hardware_pattern(pattern);
  return rules;
}

}  // namespace simrun
