#include "validation/validated_row.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <vector>

#include "validation/claimed_flops.h"

namespace simrun {
namespace {

constexpr std::array<const char*, 6> time_metrics{"iter_time_s",   "tokens_per_s_per_gpu", "tokens_per_s",
                                                  "samples_per_s", "tflops_per_gpu",       "mfu"};

std::string fact(const RowJob& made, const std::string& name) {
  const auto found = made.facts.find(name);
  return found == made.facts.end() ? "" : found->second;
}

std::int64_t needed_bytes(const StageSummary& stage) {
  return stage.held ? stage.held->device_bytes : stage.peak_memory_bytes;
}

const StageSummary* stage_of(const RowJob& made, const Summary& summary) {
  const std::string rank = fact(made, "memory_rank");
  const StageSummary* chosen = nullptr;
  for (const StageSummary& stage : summary.stages) {
    if (stage.serves) continue;
    const bool is_better = chosen == nullptr || rank == "last" ||
                           (rank != "first" && needed_bytes(stage) > needed_bytes(*chosen));
    if (is_better) chosen = &stage;
  }
  return chosen;
}

// What stays allocated between steps: weights, gradients and the optimizer's state.
double steady_bytes(const StageSummary& stage) {
  double bytes = 0;
  for (const Category category : {Category::weights, Category::gradients, Category::optimizer})
    bytes += static_cast<double>(stage.memory[static_cast<std::size_t>(category)]);
  if (stage.held)
    for (const HeldPart& part : stage.held->parts)
      if (part.name == to_string(HeldTensor::workspaces)) bytes += static_cast<double>(part.bytes);
  return bytes;
}

std::optional<double> predicted_memory(const RowJob& made, const SimulatedJob& simulated) {
  const StageSummary* stage = stage_of(made, simulated.summary);
  if (stage == nullptr) return std::nullopt;
  const std::string kind = fact(made, "memory_kind");
  double bytes = static_cast<double>(stage->peak_memory_bytes);
  if (stage->held)
    bytes = static_cast<double>(kind == "nvidia_smi" ? stage->held->device_bytes
                                : kind == "reserved" ? stage->held->reserved_bytes
                                                     : stage->held->allocated_bytes);
  else if (kind == "nvidia_smi")
    bytes += static_cast<double>(simulated.job->cluster.reserved_bytes);
  if (fact(made, "set") == "steady-state") bytes = steady_bytes(*stage);
  return bytes / (fact(made, "memory_unit") == "GB" ? 1e9 : 0x1p30);
}

// Of one microbatch's passes on a stage: the median, as the first and the last have an embedding or a head.
// The update counts too, for its share of a step, but for what the host does once.
double pass_seconds(const Job& job, const Summary& summary) {
  std::vector<double> computes;
  for (const StageSummary& stage : summary.stages)
    if (!stage.serves) computes.push_back(stage.compute_s);
  std::ranges::sort(computes);
  const double passes = computes[computes.size() / 2] - job.framework.kernels.host_step_s;
  return passes / static_cast<double>(job.microbatches());
}

bool has_words(const std::string& text, const std::string& words) {
  const auto is_same = [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); };
  return std::search(text.begin(), text.end(), words.begin(), words.end(), is_same) != text.end();
}

}  // namespace

std::optional<double> ValidatedRow::error() const {
  if (!predicted || measured() <= 0) return std::nullopt;
  return *predicted / measured() - 1;
}

bool ValidatedRow::is_time() const { return time_metric_rank(row[Column::measured_metric]) >= 0; }

bool ValidatedRow::has_scored_time() const {
  return set.empty() && counts && is_time() && status == RowStatus::scored;
}

double ValidatedRow::duration_ratio() const {
  const bool is_duration = row[Column::measured_metric] == "iter_time_s";
  return is_duration ? measured() / *predicted : *predicted / measured();
}

bool ValidatedRow::is_failure() const {
  const std::string& metric = row[Column::measured_metric];
  return metric == "oom" || metric == "crashed_or_oom" || metric == "failed";
}

bool ValidatedRow::is_out_of_memory() const {
  const std::string& notes = row[Column::notes];
  if (!is_failure() || has_words(notes, "not necessarily OOM") || has_words(notes, "OOM/failed"))
    return false;
  return row[Column::measured_metric] == "oom" || has_words(notes, "OOM") ||
         has_words(notes, "out of memory");
}

int time_metric_rank(const std::string& metric) {
  const auto found = std::ranges::find(time_metrics, metric);
  return found == time_metrics.end() ? -1 : static_cast<int>(found - time_metrics.begin());
}

std::optional<double> predicted_metric(const RowJob& made, const SimulatedJob& simulated) {
  const std::string& metric = made.row[Column::measured_metric];
  const Summary& summary = simulated.summary;
  if (metric == "memory_gb") return predicted_memory(made, simulated);
  if (metric == "iter_time_s" && fact(made, "set") == "per-layer")
    return simulated.layer_s > 0 ? std::optional(simulated.layer_s) : std::nullopt;
  if (metric == "iter_time_s" && fact(made, "set") == "per-microbatch")
    return pass_seconds(*simulated.job, summary);
  if (metric == "iter_time_s") return summary.step_time_s / made.batch_share;
  if (metric == "tokens_per_s_per_gpu") return summary.tokens_per_s_per_gpu;
  if (metric == "tokens_per_s") return summary.tokens_per_s;
  if (metric == "samples_per_s")
    return static_cast<double>(simulated.job->training.global_batch_size) / summary.step_time_s;
  const double per_gpu = claimed_flops(made.facts, *simulated.job, summary) / summary.step_time_s /
                         static_cast<double>(simulated.job->world_size());
  if (metric == "tflops_per_gpu") return per_gpu / 1e12;
  const double peak = claimed_peak(made.facts, *simulated.job);
  if (metric == "mfu" && peak > 0) return 100 * per_gpu / peak;
  return std::nullopt;
}

}  // namespace simrun
