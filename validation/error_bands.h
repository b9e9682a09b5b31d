#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "configs/load_job.h"
#include "schedules/plan.h"
#include "validation/validated_row.h"

namespace simrun {

constexpr const char* no_framework = "none";

// What predictions are alike in. "": any.
struct RunKind {
  std::string gpu;          // preset name
  std::string framework;    // preset name, or no_framework: the job names none
  std::string parallelism;  // experts, pipeline, sharded (ZeRO-3, FSDP), tensor, data or one_gpu
  bool operator==(const RunKind&) const = default;
};

// The first of the words that a job is: a mixture of experts, in pipeline stages, with sharded parameters,
// ...
std::string parallelism_kind(const Job& job);
RunKind run_kind(const Job& job);
// The same of a job's plan, as a Plan file has it.
RunKind run_kind(const Plan& plan);

// Predicted / measured of measured runs of one kind.
struct ErrorBand {
  bool is_memory = false;
  RunKind kind;
  std::size_t runs = 0;
  std::vector<std::string> sources;      // by name
  double low = 1, median = 1, high = 1;  // 10th, 50th and 90th percentile, every source weighing the same
  bool operator==(const ErrorBand&) const = default;
};

// A band of fewer runs says little.
constexpr std::size_t least_banded_runs = 8;

// Bands of the rows that count, runs on GPUs of several kinds apart, from the narrowest kind to all runs
// together: (GPU, framework, parallelism), (GPU, parallelism), (framework, parallelism), GPU, parallelism,
// all; without a framework GPU and parallelism, GPU, parallelism, all. Of least_banded_runs or more. Time's
// first; in the order of their kinds.
std::vector<ErrorBand> error_bands(const std::vector<ValidatedRow>& rows);

// The first of that list that has a run's kind.
std::optional<ErrorBand> band_of(const std::vector<ErrorBand>& bands, const RunKind& kind, bool is_memory);

// Where a measurement lies in eight of ten cases: predicted / high to predicted / low.
struct LikelyRange {
  double from = 0, to = 0;
};
LikelyRange likely_range(const ErrorBand& band, double predicted);

// The file that load_error_bands() reads: one band a line, ratios with four digits.
std::string error_bands_yaml(const std::vector<ErrorBand>& bands, const std::string& rows_file);

// Reads validation/error_bands.yaml of the first preset directory that has it; none without. Throws
// ConfigError with every problem.
std::vector<ErrorBand> load_error_bands(const LoadOptions& options);

}  // namespace simrun
