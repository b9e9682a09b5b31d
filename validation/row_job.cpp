#include "validation/row_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "validation/cluster_block.h"
#include "validation/model_block.h"
#include "validation/parallelism_block.h"
#include "validation/row_defaults.h"

namespace simrun {
namespace {

// What several rules say of one row, the most specific first.
using Applied = std::vector<RowRule>;

Applied applied_rules(const MeasuredRow& row, const RowRules& rules) {
  Applied all;
  for (const RowRule& rule : rules.notes)
    if (holds_where(rule, row))
      if (std::optional<RowRule> found = applied(rule, row[Column::notes])) all.push_back(*found);
  for (const auto& [file, column] :
       {std::pair(&rules.sources, Column::source), std::pair(&rules.models, Column::model),
        std::pair(&rules.hardware, Column::hardware)})
    if (std::optional<RowRule> found = first_applied(*file, row[column])) all.push_back(*found);
  if (std::optional<RowRule> found = first_applied(rules.flops, row[Column::flops_definition]))
    all.push_back(*found);
  return all;
}

// "colm" of "colm-0003".
std::string prefix_of_id(const std::string& id) {
  const std::size_t dash = id.rfind('-');
  const bool is_numbered = dash != std::string::npos && dash > 0 && dash + 1 < id.size() &&
                           id.find_first_not_of("0123456789", dash + 1) == std::string::npos;
  return is_numbered ? id.substr(0, dash) : "";
}

std::string source_of(const MeasuredRow& row, const RowRules& rules) {
  if (const std::optional<RowRule> rule = first_applied(rules.sources, row[Column::source]))
    return rule->name;
  const std::string found = prefix_of_id(row[Column::id]);
  return found.empty() ? row[Column::source] : found;
}

// Nobody need know what was assumed of sequence parallelism without tensor parallelism, and of a pipeline or
// of experts that there are not.
void forget_idle_assumptions(RowJob& made) {
  const auto is_split = [&](Column size) { return made.row.integer(size).value_or(1) > 1; };
  const auto forget = [&](const char* start) {
    std::erase_if(made.assumed, [&](const std::string& what) { return what.starts_with(start); });
  };
  if (!is_split(Column::tp)) forget("sp=");
  if (!is_split(Column::pp))
    for (const char* start : {"vpp=", "schedule="}) forget(start);
  if (!is_split(Column::n_gpus)) forget("zero_stage=");
}

void name_framework(RowJob& made, KnownPresets& presets) {
  const auto named = made.facts.find("framework");
  if (named == made.facts.end()) return;
  if (presets.has_framework(named->second))
    made.job.set_if_absent("framework.from", named->second);
  else
    made.assumed.push_back(fmt::format("no profile of {}", named->second));
}

}  // namespace

const Cluster& KnownPresets::cluster(const std::string& name) {
  const auto found = clusters_.find(name);
  if (found != clusters_.end()) return found->second;
  LoadOptions with = options_;
  with.overrides = {{"cluster.nodes", "1"}};
  return clusters_.emplace(name, load_cluster(name, with)).first->second;
}

bool KnownPresets::has_framework(const std::string& name) {
  const auto [at, is_new] = frameworks_.emplace(name, false);
  if (is_new)
    at->second = std::ranges::any_of(options_.preset_directories, [&](const std::string& directory) {
      std::error_code ignored;
      return std::filesystem::is_regular_file(
          std::filesystem::path(directory) / "frameworks" / (name + ".yaml"), ignored);
    });
  return at->second;
}

RowJob job_of_row(const MeasuredRow& row, const RowRules& rules, KnownPresets& presets) {
  RowJob made;
  made.row = row;
  made.source = source_of(row, rules);
  made.job.set("simrun", "1");
  for (const RowRule& rule : applied_rules(row, rules)) {
    for (const auto& [column, value] : rule.cells) assume(made, column, value);
    for (const auto& [key, value] : rule.job) made.job.set_if_absent(key, value);
    for (const auto& [name, value] : rule.facts) made.facts.emplace(name, value);
  }
  name_framework(made, presets);
  fill_in_defaults(made);
  write_model(made);
  write_training(made);
  write_parallelism(made);
  write_cluster(made, presets);
  forget_idle_assumptions(made);
  return made;
}

}  // namespace simrun
