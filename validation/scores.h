#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "validation/repeats.h"
#include "validation/statistics.h"
#include "validation/validated_row.h"

namespace simrun {

// The ranking of the runs of one source with the same model, hardware, GPUs and sequence length, by
// throughput of a GPU.
struct SweepScore {
  std::string source, name;  // "LLaMA-13B, 64 x A100-80GB, 2048 tokens"
  std::size_t runs = 0;
  std::optional<double> spearman;
  bool finds_best = false;  // the fastest run is among the three that are predicted fastest
};
constexpr std::size_t least_ranked_runs = 8;  // in a sweep whose ranking counts

struct SourceScore {
  std::string source;
  ErrorStatistics time, memory;
  std::optional<double> spearman;  // mean over its sweeps that count
};

// Configurations by what happened and whether they are predicted to fit.
struct FitConfusion {
  std::size_t oom_fits = 0, oom_not = 0;        // the source says that memory ran out
  std::size_t ran_fits = 0, ran_not = 0;        // measured: it fitted
  std::size_t failed_fits = 0, failed_not = 0;  // crashed, for whatever reason
  std::size_t unscored = 0;
};

struct ValidationScores {
  std::vector<SourceScore> sources;  // by name; rows that are scored together
  SourceScore overall;
  double headline_time = 0, headline_memory = 0;  // mean over sources of honest_mape
  std::map<std::string, SourceScore> apart;       // by set: caution, per-layer, ...
  std::vector<SweepScore> sweeps;                 // of least_ranked_runs or more
  RepeatScore repeats;
  FitConfusion fits;
  std::map<std::string, std::size_t> reasons;  // rows by why they are unscored, of all sets
};

// One time metric of each run counts, of a run that two tables of its source print once, and every memory
// row.
ValidationScores score_rows(const std::vector<ValidatedRow>& rows);

}  // namespace simrun
