#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "configs/config_node.h"
#include "configs/diagnostics.h"
#include "configs/job.h"
#include "configs/key_rule.h"
#include "configs/plan_config.h"

namespace simrun {

// --set parallelism.tensor_model_parallel_size=8
struct Override {
  std::string key;    // dotted path
  std::string value;  // YAML scalar or flow sequence/map
};

struct LoadOptions {
  std::vector<Override> overrides;
  // Where `from:` and `gpu:` names are looked up after the file's own folder: $SIMRUN_CONFIGS, then the
  // installed presets.
  std::vector<std::string> preset_directories;
  // Files that are not read again, by path (parsed_files): for many jobs with the same presets.
  ParsedFiles parsed = {};
};

struct LoadedJob {
  Job job;
  // The effective config: every value, defaults and presets resolved, as YAML; each line ends in a comment
  // that says where the value came from (file:line, default, --set). Loading it again gives an equal Job.
  std::string effective_yaml;
  std::vector<std::string> files;    // that were read: the job, models, GPUs, clusters, a schedule's CSV
  SourcePosition schedule_position;  // of pipeline_schedule, or of its section
  std::map<std::string, SourcePosition> positions = {};  // of sections and written values, by dotted path
  PlanConfig plan = {};                                  // limits of a search (simrun --plan)
};

// Reads a job file strictly. Throws ConfigError with every problem found.
LoadedJob load_job(const std::string& path, const LoadOptions& options);

// The same from text; `file` names it in messages and anchors relative `from:` paths.
LoadedJob load_job_text(const std::string& text, const std::string& file, const LoadOptions& options);

// The same of a tree that was read, or made of another format, with what was wrong with that already.
// Positions in it may be those of a file that is no YAML. The overrides are added to the tree.
LoadedJob load_job_tree(ConfigNode& root, std::vector<Diagnostic> problems, const std::string& file,
                        const LoadOptions& options);

// What a job's keys have and accept, by dotted path, whether or not the job is right.
struct JobKeys {
  std::map<std::string, std::string> values;  // as in the effective config; without those that were refused
  std::map<std::string, KeyRule> rules;       // of the keys that the loader asked for
};
JobKeys job_keys(const std::string& text, const std::string& file, const LoadOptions& options);

// The files, presets or jobs that were read without a problem, for LoadOptions::parsed.
ParsedFiles parsed_files(const std::vector<std::string>& paths);

// GPUs of the cluster that the overrides make by themselves; nothing where they make none that is whole.
std::optional<std::int64_t> gpus_of_overrides(const std::string& file, const LoadOptions& options);

// A cluster alone: `name` is a preset or a file, as after `cluster: {from:`; overrides name keys of
// `cluster`. Throws ConfigError with every problem found.
Cluster load_cluster(const std::string& name, const LoadOptions& options);

}  // namespace simrun
