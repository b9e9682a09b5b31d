#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "configs/load_job.h"
#include "validation/job_text.h"
#include "validation/measured_row.h"
#include "validation/model_presets.h"
#include "validation/row_rules.h"

namespace simrun {

// A measured row as a job. The cells that the row leaves empty are filled by its notes, its source, its
// model's name and its hardware (configs/validation/*.yaml), then by Megatron-LM's habits.
struct RowJob {
  MeasuredRow row;  // with every cell that the job needs
  JobText job;
  std::vector<std::string> assumed;  // "zero_stage=1": cells that were empty, and what else was guessed
  std::map<std::string, std::string> facts;  // of the rules; `unknown`: what is needed and no rule knows
  std::string source;      // the rule's name, or the publication that the row's source names
  double batch_share = 1;  // of the row's global batch that the job has, where it does not divide
  bool has_source_rule = false;
  // Cells that nobody states and that a job which does not fit may have otherwise.
  bool guesses_gpus = false, guesses_micro_batch = false;
  bool guesses_split = false;     // tensor and pipeline parallel
  bool guesses_experts = false;   // expert parallel
  bool guesses_sharding = false;  // data-parallel ranks keep everything, which nobody says
  bool shards_to_fit = false;     // they did, and did not fit
  bool has_guesses() const {
    return guesses_gpus || guesses_micro_batch || guesses_split || guesses_experts || guesses_sharding;
  }
};

// What to take for cells that nobody states; 0: the default.
struct SizeGuess {
  std::int64_t n_gpus = 0, micro_batch = 0, tensor = 0, pipeline = 0, expert = 0;
  bool shards = false;  // what data-parallel ranks would else keep whole
};

// Presets that rows name, each looked up once.
class KnownPresets {
 public:
  explicit KnownPresets(const LoadOptions& options) : options_(options) {}
  // Throws ConfigError.
  const Cluster& cluster(const std::string& name);
  // Of a job with `cluster.from`, as its keys of `cluster.gpu` have it. Throws ConfigError.
  const Gpu& gpu(const JobText& job);
  bool has_framework(const std::string& name);
  // The preset that a model's name means; nullptr where there is none.
  const ModelPreset* model(const std::string& name);
  // The preset of just that name; nullptr where there is none.
  const ModelPreset* preset(const std::string& name);

 private:
  const LoadOptions& options_;
  std::map<std::string, Cluster> clusters_;
  std::map<std::string, Gpu> gpus_;
  std::map<std::string, bool> frameworks_;
  const std::vector<ModelPreset>& models();
  std::optional<std::vector<ModelPreset>> models_;
};

// What the tables print for the row's source: the name of its rule, else the publication that it names.
std::string group_of(const MeasuredRow& row, const RowRules& rules);

// Never throws for what a row says: the loader refuses what makes no sense. Throws ConfigError where a rule
// names a cluster that there is not.
RowJob job_of_row(const MeasuredRow& row, const RowRules& rules, KnownPresets& presets,
                  const SizeGuess& guess = {});

}  // namespace simrun
