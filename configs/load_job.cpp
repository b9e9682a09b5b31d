#include "configs/load_job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <initializer_list>
#include <string_view>
#include <tuple>

#include "configs/config_node.h"
#include "configs/effective_config.h"
#include "configs/job_rules.h"
#include "configs/key_hints.h"
#include "configs/load_sections.h"
#include "configs/sha256.h"
#include "configs/text_file.h"

namespace simrun {
namespace {

constexpr const char* schema_version = "1";
const std::vector<std::string> section_names = {"model",     "training",      "parallelism", "moe",
                                                "optimizer", "recompute",     "offload",     "layout",
                                                "cluster",   "imperfections", "framework",   "plan"};

void set_position(ConfigNode& node, const SourcePosition& position) {
  node.position = position;
  node.key_position = position;
  for (ConfigNode& child : node.children) set_position(child, position);
}

// The node at a dotted path as a tree of its own: a.b = 1 becomes {a: {b: 1}}.
ConfigNode nested(const std::string& path, ConfigNode value) {
  const std::size_t dot = path.rfind('.');
  value.key = path.substr(dot == std::string::npos ? 0 : dot + 1);
  if (dot == std::string::npos) return value;
  ConfigNode parent;
  parent.kind = ConfigNode::Kind::map;
  parent.position = value.position;
  parent.key_position = value.position;
  parent.children = {std::move(value)};
  return nested(path.substr(0, dot), std::move(parent));
}

bool is_dotted_path(const std::string& key) {
  return !key.empty() && key.size() <= 200 && key.front() != '.' && key.back() != '.' &&
         key.find("..") == std::string::npos;
}

// Another preset is another cluster of as many nodes and GPUs, if it has so many.
void keep_size(const ConfigNode& cluster, ConfigNode& other) {
  for (const char* key : {"nodes", "gpus_per_node"})
    if (const ConfigNode* size = cluster.find(key)) {
      other.children.push_back(*size);
      other.children.back().is_most = true;
    }
}

// Where --set names another preset for a map that is written over one ("model.from", "cluster.gpu.from"): the
// name, so that what the job writes beside it stays. Null where there is none, and for the cluster: what is
// written beside its preset is about that one, but for its size (keep_size).
ConfigNode* written_preset(const std::string& path, ConfigNode& root) {
  if (!path.ends_with(".from") || path == "cluster.from") return nullptr;
  ConfigNode* node = &root;
  for (std::size_t begin = 0; node != nullptr && begin <= path.size();) {
    const std::size_t dot = std::min(path.find('.', begin), path.size());
    node = node->kind == ConfigNode::Kind::map ? node->find(path.substr(begin, dot - begin)) : nullptr;
    begin = dot + 1;
  }
  return node;
}

// One --set on top of the tree. Its position has no line; its file is the flag as typed.
void apply_override(const Override& flag_value, ConfigNode& root, Reading& reading) {
  const SourcePosition flag{fmt::format("--set {}={}", flag_value.key, flag_value.value), 0, 0};
  if (!is_dotted_path(flag_value.key)) {
    reading.problems.push_back(
        {flag, "the key must be a dotted path", "for example training.seq_length=4096."});
    return;
  }
  std::vector<Diagnostic> problems;
  ConfigNode value = read_yaml(flag_value.value, flag.file, problems);
  for (Diagnostic& problem : problems) reading.problems.push_back({flag, problem.message, problem.hint});
  if (!problems.empty()) return;
  set_position(value, flag);
  if (ConfigNode* preset = written_preset(flag_value.key, root)) {
    value.key = preset->key;
    *preset = std::move(value);
    return;
  }
  ConfigNode tree = nested(flag_value.key, std::move(value));

  ConfigNode* section = root.find(tree.key);
  if (flag_value.key == "cluster.from" && section != nullptr) keep_size(*section, tree);
  if (section == nullptr)
    root.children.push_back(std::move(tree));
  else {
    const SourcePosition key_position = section->key_position;
    *section = merged(std::move(*section), tree);
    section->key_position = key_position;
  }
}

// Bytes of the UTF-8 character that `text` starts with, or 0 if it starts with none.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t at) {
    return at < text.size() ? static_cast<unsigned char>(text[at]) : 0U;
  };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xc2 && first < 0xe0   ? 2
                             : first >= 0xe0 && first < 0xf0 ? 3
                             : first >= 0xf0 && first < 0xf5 ? 4
                                                             : 0;
  for (std::size_t at = 1; at < length; ++at)
    if ((byte(at) & 0xc0U) != 0x80) return 0;
  // The second byte also rules out longer spellings than needed, surrogates and what is above U+10FFFF.
  const bool is_out_of_range = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) >= 0xa0) ||
                               (first == 0xf0 && byte(1) < 0x90) || (first == 0xf4 && byte(1) >= 0x90);
  return is_out_of_range ? 0 : length;
}

// The job's name goes into protobuf strings, which must be UTF-8: any other byte, and any control character,
// becomes '_'.
std::string printable_name(std::string name) {
  for (std::size_t at = 0; at < name.size();) {
    const std::size_t length = utf8_length(std::string_view(name).substr(at));
    const auto byte = static_cast<unsigned char>(name[at]);
    if (length == 0 || byte < 0x20 || byte == 0x7f) name[at] = '_';
    at += std::max<std::size_t>(length, 1);
  }
  return name;
}

void check_version(const ConfigNode& root, Reading& reading) {
  const ConfigNode* version = root.find("simrun");
  if (version == nullptr) {
    reading.problems.push_back({{reading.file, 1, 1},
                                "missing required key 'simrun', the version of the config's schema",
                                fmt::format("write simrun: {} as the first line.", schema_version)});
  } else if (version->kind != ConfigNode::Kind::scalar || version->quoted ||
             version->text != schema_version) {
    reading.problems.push_back(
        {version->position, fmt::format("schema version {} is unknown to this simrun", describe(*version)),
         fmt::format("write simrun: {}.", schema_version)});
  } else {
    reading.record("simrun", schema_version, origin_of(version->position));
  }
}

void check_sections(const ConfigNode& root, Reading& reading) {
  for (const ConfigNode& section : root.children) {
    if (section.key == "simrun" || std::ranges::find(section_names, section.key) != section_names.end())
      continue;
    reading.problems.push_back({section.key_position,
                                fmt::format("unknown section {}", in_quotes(section.key)),
                                hint_for_unknown_key("", section.key, section_names)});
  }
}

// The job file's own problems first, then those of the files it uses, each in the order of their lines.
void sort_problems(std::vector<Diagnostic>& problems, const std::string& file) {
  std::ranges::stable_sort(problems, {}, [&](const Diagnostic& problem) {
    const SourcePosition& position = problem.position;
    return std::tuple(position.file != file, position.file, position.line, position.column);
  });
}

[[noreturn]] void refuse(Reading& reading) {
  sort_problems(reading.problems, reading.file);
  throw ConfigError(std::move(reading.problems));
}

// A schedule's CSV and a histogram count by what they hold, not by where they lie.
std::string config_sha256(std::vector<EffectiveValue> values, const Job& job) {
  if (job.parallelism.schedule_csv)
    for (EffectiveValue& value : values)
      if (value.path == "parallelism.pipeline_schedule")
        value.text = "csv " + sha256(job.parallelism.schedule_csv->text);
  if (job.moe.histogram)
    for (EffectiveValue& value : values)
      if (value.path == "moe.histogram")
        value.text = fmt::format("tokens {}", fmt::join(job.moe.histogram->tokens, " "));
  return effective_sha256(values);
}

// REQUIRES: a map. What is wrong is in `reading`.
Job read_sections(const ConfigNode& root, Reading& reading, const LoadOptions& options) {
  check_version(root, reading);
  check_sections(root, reading);
  const PresetSearch search{reading.file, options.preset_directories, &options.parsed};
  Job job;
  job.name = printable_name(std::filesystem::path(reading.file).stem().string());
  read_model(root.find("model"), search, reading, job);
  read_training(root.find("training"), reading, job);
  const std::string layout = read_parallelism(root.find("parallelism"), reading, job);
  read_moe(root.find("moe"), reading, job);
  read_optimizer(root.find("optimizer"), reading, job);
  read_recompute(root.find("recompute"), reading, job);
  read_offload(root.find("offload"), reading, job);
  read_layout(root.find("layout"), reading, job);
  read_cluster(root.find("cluster"), search, reading, job);
  read_imperfections(root.find("imperfections"), reading, job);
  read_framework(root.find("framework"), search, reading, job);
  job.model.separate_gate = job.framework.kernels.separate_gate;
  apply_job_rules(layout, reading, job);
  return job;
}

bool is_overlap_open(const ConfigNode* optimizer) {
  if (optimizer == nullptr) return true;
  const auto written = [&](const char* key) {
    const ConfigNode* node = optimizer->find(key);
    return node == nullptr ? std::string() : node->text;
  };
  const std::string reduce = written("overlap_grad_reduce"), gather = written("overlap_param_gather");
  return reduce != "false" && gather != "false" && (reduce.empty() || gather.empty());
}

}  // namespace

LoadedJob load_job_text(const std::string& text, const std::string& file, const LoadOptions& options) {
  std::vector<Diagnostic> problems;
  ConfigNode root = read_yaml(text, file, problems);
  return load_job_tree(root, std::move(problems), file, options);
}

LoadedJob load_job_tree(ConfigNode& root, std::vector<Diagnostic> problems, const std::string& file,
                        const LoadOptions& options) {
  Reading reading;
  reading.file = file;
  reading.files = {file};
  reading.problems = std::move(problems);
  if (reading.problems.empty() && root.kind != ConfigNode::Kind::map)
    reading.problems.push_back({{file, 0, 0},
                                fmt::format("a config is a map of sections, not {}", describe(root)),
                                "start from one in configs/jobs/."});
  if (root.kind != ConfigNode::Kind::map) refuse(reading);
  for (const Override& flag_value : options.overrides) apply_override(flag_value, root, reading);

  Job job = read_sections(root, reading, options);
  PlanConfig plan;
  read_plan(root.find("plan"), reading, plan);
  plan.overlap_is_open = is_overlap_open(root.find("optimizer"));
  const auto is_open = [&](const char* section, std::initializer_list<const char*> keys) {
    const ConfigNode* of = root.find(section);
    return of == nullptr ||
           std::ranges::none_of(keys, [&](const char* key) { return of->find(key) != nullptr; });
  };
  plan.exchange_is_open = is_open("parallelism", {"cp_comm_type"});
  plan.rank_order_is_open = is_open("parallelism", {"rank_order", "rank_map"});
  plan.bucket_is_open = is_open("optimizer", {"bucket_size", "bucket_bytes"});
  plan.reshard_is_open = is_open("optimizer", {"reshard_after_forward", "reshard_after_backward"});
  if (!reading.problems.empty()) refuse(reading);

  job.parallelism.pipeline_schedule = printable_name(job.parallelism.pipeline_schedule);
  job.config_sha256 = config_sha256(reading.values, job);
  return {std::move(job),
          effective_yaml(reading.values),
          std::move(reading.files),
          reading.position_of("parallelism.pipeline_schedule"),
          std::move(reading.positions),
          std::move(plan)};
}

JobKeys job_keys(const std::string& text, const std::string& file, const LoadOptions& options) {
  Reading reading;
  reading.file = file;
  ConfigNode root = read_yaml(text, file, reading.problems);
  if (root.kind != ConfigNode::Kind::map) return {};
  for (const Override& flag_value : options.overrides) apply_override(flag_value, root, reading);
  read_sections(root, reading, options);
  JobKeys keys{{}, std::move(reading.rules)};
  for (EffectiveValue& value : reading.values) keys.values[value.path] = std::move(value.text);
  return keys;
}

ParsedFiles parsed_files(const std::vector<std::string>& paths) {
  ParsedFiles parsed;
  for (const std::string& path : paths) {
    std::vector<Diagnostic> problems;
    const TextFile file = read_text_file(path);
    if (!file.text) continue;
    ConfigNode tree = read_yaml(*file.text, path, problems);
    if (problems.empty()) parsed.emplace(path, std::move(tree));
  }
  return parsed;
}

std::optional<std::int64_t> gpus_of_overrides(const std::string& file, const LoadOptions& options) {
  Reading reading;
  reading.file = file;
  ConfigNode root;
  root.kind = ConfigNode::Kind::map;
  for (const Override& flag_value : options.overrides) apply_override(flag_value, root, reading);
  Job job;
  read_cluster(root.find("cluster"), {file, options.preset_directories, &options.parsed}, reading, job);
  if (!reading.problems.empty()) return std::nullopt;
  return job.cluster.nodes * job.cluster.gpus_per_node;
}

Cluster load_cluster(const std::string& name, const LoadOptions& options) {
  Reading reading;
  reading.file = "--cluster " + name;
  ConfigNode root;
  root.kind = ConfigNode::Kind::map;
  ConfigNode from;
  from.kind = ConfigNode::Kind::scalar;
  from.text = name;
  set_position(from, {reading.file, 0, 0});
  root.children = {nested("cluster.from", std::move(from))};
  for (const Override& flag_value : options.overrides) {
    if (!flag_value.key.starts_with("cluster."))
      reading.problems.push_back({{fmt::format("--set {}={}", flag_value.key, flag_value.value), 0, 0},
                                  "only keys of 'cluster' have an effect here",
                                  "for example cluster.inter_node.latency=2us."});
    else
      apply_override(flag_value, root, reading);
  }
  Job job;
  read_cluster(root.find("cluster"), {"", options.preset_directories, &options.parsed}, reading, job);
  if (!reading.problems.empty()) refuse(reading);
  return std::move(job.cluster);
}

LoadedJob load_job(const std::string& path, const LoadOptions& options) {
  const TextFile file = read_text_file(path);
  if (!file.text) throw ConfigError({{{path, 0, 0}, "cannot read this file: " + file.reason, ""}});
  return load_job_text(*file.text, path, options);
}

}  // namespace simrun
