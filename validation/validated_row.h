#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "validation/row_job.h"
#include "validation/simulated_job.h"

namespace simrun {

enum class RowStatus : std::uint8_t { scored, unscored };

// One row with what is predicted for it, in the row's own unit.
struct ValidatedRow {
  MeasuredRow row;      // as in the file
  std::string source;   // short name
  std::string set;      // "", or what it is scored apart for: caution, per-layer, steady-state, ...
  std::string run;      // rows of one run of the same job have the same
  bool counts = false;  // the one row of its run whose time is in the score; every memory row counts
  RowStatus status = RowStatus::unscored;
  std::string why;  // of unscored ones
  std::vector<std::string> assumed;
  std::string yaml;
  std::shared_ptr<const SimulatedJob> simulated;  // null: no job could be made
  std::optional<double> predicted;
  double measured() const { return row.number(Column::measured_value).value_or(0); }
  // (predicted - measured) / measured; nothing where either is missing.
  std::optional<double> error() const;
  bool is_memory() const { return row[Column::measured_metric] == "memory_gb"; }
  bool is_time() const;
  // Its time is in the score, with the rows that are scored together.
  bool has_scored_time() const;
  // REQUIRES: it is scored. How long the run took by what is predicted, in whatever metric.
  double duration_ratio() const;
  // Whether the configuration did not run: oom, crashed_or_oom, failed.
  bool is_failure() const;
  // The source says that memory ran out.
  bool is_out_of_memory() const;
};

// 0 for the metric that a run is scored by if it has it: iter_time_s, tokens_per_s_per_gpu, tokens_per_s,
// samples_per_s, tflops_per_gpu, mfu. -1 for what is no time.
int time_metric_rank(const std::string& metric);

// What the simulated job predicts for the row's metric, an iteration time in the sets per-layer and
// per-microbatch being that of a layer and of one stage's passes; nothing for a metric that is unknown, or
// the time of a layer of several.
std::optional<double> predicted_metric(const RowJob& made, const SimulatedJob& simulated);

}  // namespace simrun
