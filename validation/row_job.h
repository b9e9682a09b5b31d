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
  std::string source;      // the rule's name, or the prefix of the row's id, or the source's own text
  double batch_share = 1;  // of the row's global batch that the job has, where it does not divide
};

// Presets that rows name, each looked up once.
class KnownPresets {
 public:
  explicit KnownPresets(const LoadOptions& options) : options_(options) {}
  // Throws ConfigError.
  const Cluster& cluster(const std::string& name);
  bool has_framework(const std::string& name);
  // The preset that a model's name means; nullptr where there is none.
  const ModelPreset* model(const std::string& name);

 private:
  const LoadOptions& options_;
  std::map<std::string, Cluster> clusters_;
  std::map<std::string, bool> frameworks_;
  std::optional<std::vector<ModelPreset>> models_;
};

// Never throws for what a row says: the loader refuses what makes no sense. Throws ConfigError where a rule
// names a cluster that there is not.
RowJob job_of_row(const MeasuredRow& row, const RowRules& rules, KnownPresets& presets);

}  // namespace simrun
