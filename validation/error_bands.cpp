#include "validation/error_bands.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "configs/node_groups.h"
#include "configs/section_reader.h"
#include "validation/statistics.h"

namespace simrun {
namespace {

// The kinds that a run belongs to, narrowest first. Predictions without a framework are a class of their own:
// their kernels have no coefficients of real runs.
std::vector<RunKind> kinds_of(const RunKind& run) {
  if (run.framework == no_framework)
    return {run, {run.gpu, run.framework, ""}, {"", run.framework, run.parallelism}, {"", run.framework, ""}};
  return {run,
          {run.gpu, "", run.parallelism},
          {"", run.framework, run.parallelism},
          {run.gpu, "", ""},
          {"", "", run.parallelism},
          {}};
}

// Predicted / measured, of time in seconds.
double ratio_of(const ValidatedRow& row, double error) {
  const bool is_rate = row.is_time() && time_metric_rank(row.row[Column::measured_metric]) > 0;
  return is_rate ? 1 / (1 + error) : 1 + error;
}

struct Gathered {
  std::vector<std::pair<double, std::string>> ratios;  // with their sources
  std::map<std::string, double> runs_of;
};

// Every source weighs the same, so that one large sweep does not decide.
ErrorBand band(const RunKind& kind, bool is_memory, const Gathered& gathered) {
  std::vector<std::pair<double, double>> weighted;
  for (const auto& [ratio, source] : gathered.ratios)
    weighted.emplace_back(ratio, 1 / gathered.runs_of.at(source));
  std::ranges::sort(weighted);
  ErrorBand band{is_memory,
                 kind,
                 weighted.size(),
                 {},
                 weighted_percentile(weighted, 0.1),
                 weighted_percentile(weighted, 0.5),
                 weighted_percentile(weighted, 0.9)};
  for (const auto& [source, runs] : gathered.runs_of) band.sources.push_back(source);
  return band;
}

}  // namespace

std::string parallelism_kind(const Job& job) {
  if (job.model.experts.count > 0) return "experts";
  if (job.parallelism.pipeline_model_parallel_size > 1) return "pipeline";
  if (job.optimizer.zero_stage == 3) return "sharded";
  if (job.parallelism.tensor_model_parallel_size > 1) return "tensor";
  return job.world_size() > 1 ? "data" : "one_gpu";
}

RunKind run_kind(const Job& job) {
  const std::string& framework = job.framework.name;
  return {job.cluster.gpu.name, framework.empty() ? no_framework : framework, parallelism_kind(job)};
}

RunKind run_kind(const Plan& plan) {
  const JobFacts& job = plan.job;
  // Weights that are gathered again for every pass.
  const auto is_gathered = [](const Buffer& buffer) {
    return buffer.category == Category::weights && buffer.parameter != no_index && buffer.scope != Scope::run;
  };
  const std::string parallelism =
      std::ranges::find(plan.dimension_names, "experts") != plan.dimension_names.end() ? "experts"
      : job.pipeline_parallel > 1                                                      ? "pipeline"
      : std::ranges::any_of(plan.buffers, is_gathered)                                 ? "sharded"
      : job.tensor_parallel > 1                                                        ? "tensor"
      : plan.cluster.nodes * plan.cluster.gpus_per_node > 1                            ? "data"
                                                                                       : "one_gpu";
  const std::string& framework = plan.framework.name;
  return {plan.cluster.gpu.name, framework.empty() ? no_framework : framework, parallelism};
}

std::vector<ErrorBand> error_bands(const std::vector<ValidatedRow>& rows) {
  // By memory or time, place in kinds_of() and kind.
  std::map<std::tuple<bool, std::size_t, std::string, std::string, std::string>, Gathered> all;
  for (const ValidatedRow& row : rows) {
    const std::optional<double> error = row.error();
    if (!row.counts || !row.set.empty() || !error || row.is_failure() || !row.simulated ||
        !row.simulated->job || GpuKinds(row.simulated->job->cluster).count() > 1)
      continue;
    const std::vector<RunKind> kinds = kinds_of(run_kind(*row.simulated->job));
    for (std::size_t place = 0; place < kinds.size(); ++place) {
      const RunKind& kind = kinds[place];
      Gathered& of = all[{row.is_memory(), place, kind.gpu, kind.framework, kind.parallelism}];
      of.ratios.emplace_back(ratio_of(row, *error), row.source);
      ++of.runs_of[row.source];
    }
  }
  std::vector<ErrorBand> bands;
  for (const auto& [key, gathered] : all) {
    const auto& [is_memory, place, gpu, framework, parallelism] = key;
    if (gathered.ratios.size() >= least_banded_runs)
      bands.push_back(band({gpu, framework, parallelism}, is_memory, gathered));
  }
  return bands;
}

std::optional<ErrorBand> band_of(const std::vector<ErrorBand>& bands, const RunKind& kind, bool is_memory) {
  for (const RunKind& of : kinds_of(kind)) {
    const auto found = std::ranges::find_if(
        bands, [&](const ErrorBand& band) { return band.is_memory == is_memory && band.kind == of; });
    if (found != bands.end()) return *found;
  }
  return {};
}

LikelyRange likely_range(const ErrorBand& band, double predicted) {
  return {predicted / band.high, predicted / band.low};
}

std::string error_bands_yaml(const std::vector<ErrorBand>& bands, const std::string& rows_file) {
  std::string text = fmt::format(
      "# Predicted / measured: 10th, 50th and 90th percentile over the measured runs of a kind. Written by\n"
      "# simrun --validate {} --bands; what a kind does not name is any.\n",
      rows_file);
  for (const ErrorBand& band : bands) {
    std::string kind;
    std::vector<std::string> sources;
    for (const std::string& source : band.sources) sources.push_back(yaml_quoted(source));
    for (const auto& [key, value] :
         {std::pair("gpu", &band.kind.gpu), std::pair("framework", &band.kind.framework),
          std::pair("parallelism", &band.kind.parallelism)})
      if (!value->empty()) kind += fmt::format("{}: {}, ", key, *value);
    text +=
        fmt::format("- {{of: {}, {}runs: {}, low: {:.4f}, median: {:.4f}, high: {:.4f}, sources: [{}]}}\n",
                    band.is_memory ? "memory" : "time", kind, band.runs, band.low, band.median, band.high,
                    fmt::join(sources, ", "));
  }
  return text;
}

}  // namespace simrun
