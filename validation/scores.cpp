#include "validation/scores.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace simrun {
namespace {

struct Errors {
  std::vector<double> time, memory;
  std::size_t time_unscored = 0, memory_unscored = 0;

  void add(const ValidatedRow& row) {
    if (!row.counts) return;
    const std::optional<double> error = row.status == RowStatus::scored ? row.error() : std::nullopt;
    if (row.is_memory())
      error ? memory.push_back(*error) : static_cast<void>(++memory_unscored);
    else
      error ? time.push_back(*error) : static_cast<void>(++time_unscored);
  }
  SourceScore score(std::string name) const {
    return {std::move(name),
            error_statistics(time, time_unscored),
            error_statistics(memory, memory_unscored),
            {}};
  }
};

// Tokens per second and GPU, predicted and as measured.
struct Throughput {
  double predicted, measured;
};

Throughput throughput_of(const ValidatedRow& row) {
  const double predicted = row.simulated->summary.tokens_per_s_per_gpu;
  // In few digits: what was measured as the same ranks the same, whatever the last bit of the quotient.
  return {predicted, static_cast<float>(predicted / row.duration_ratio())};
}

std::string sweep_name(const MeasuredRow& row) {
  return fmt::format("{}, {} x {}, {} tokens", row[Column::model], row[Column::n_gpus], row[Column::hardware],
                     row[Column::seq_len]);
}

SweepScore ranked(const std::vector<Throughput>& runs, std::string source, std::string name) {
  SweepScore score{std::move(source), std::move(name), runs.size(), {}, false};
  std::vector<double> predicted, measured;
  for (const Throughput& run : runs) {
    predicted.push_back(run.predicted);
    measured.push_back(run.measured);
  }
  score.spearman = spearman(predicted, measured);
  const auto best = static_cast<std::size_t>(std::ranges::max_element(measured) - measured.begin());
  const auto faster = std::ranges::count_if(predicted, [&](double other) { return other > predicted[best]; });
  score.finds_best = faster < 3;
  return score;
}

std::vector<SweepScore> score_sweeps(const std::vector<ValidatedRow>& rows) {
  std::map<std::pair<std::string, std::string>, std::vector<Throughput>> sweeps;
  for (const ValidatedRow& row : rows)
    if (row.has_scored_time()) sweeps[{row.source, sweep_name(row.row)}].push_back(throughput_of(row));
  std::vector<SweepScore> scores;
  for (const auto& [name, runs] : sweeps)
    if (runs.size() >= least_ranked_runs) scores.push_back(ranked(runs, name.first, name.second));
  return scores;
}

std::optional<double> mean_spearman(const std::vector<SweepScore>& sweeps, const std::string& source) {
  std::vector<double> values;
  for (const SweepScore& sweep : sweeps)
    if (sweep.spearman && (source.empty() || sweep.source == source)) values.push_back(*sweep.spearman);
  if (values.empty()) return std::nullopt;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Every configuration once, however many metrics its run has. One that ran and failed too is both.
FitConfusion confusion_of(const std::vector<ValidatedRow>& rows) {
  FitConfusion confusion;
  std::set<std::string> seen;
  for (const ValidatedRow& row : rows) {
    if (!row.is_failure() && !row.set.empty()) continue;
    if (!seen.insert(row.run + (row.is_failure() ? row.row[Column::measured_metric] : "")).second) continue;
    if (row.status != RowStatus::scored) {
      ++confusion.unscored;
      continue;
    }
    const bool fits = row.simulated->summary.fits && row.simulated->summary.host_fits;
    if (row.is_out_of_memory())
      ++(fits ? confusion.oom_fits : confusion.oom_not);
    else if (row.is_failure())
      ++(fits ? confusion.failed_fits : confusion.failed_not);
    else
      ++(fits ? confusion.ran_fits : confusion.ran_not);
  }
  return confusion;
}

double headline(const std::vector<SourceScore>& sources, ErrorStatistics SourceScore::*of) {
  double sum = 0, count = 0;
  for (const SourceScore& source : sources) {
    if ((source.*of).rows == 0) continue;
    sum += (source.*of).honest_mape;
    ++count;
  }
  return count > 0 ? sum / count : 0;
}

}  // namespace

ValidationScores score_rows(const std::vector<ValidatedRow>& rows) {
  ValidationScores scores;
  std::map<std::string, Errors> sources, apart;
  Errors all;
  for (const ValidatedRow& row : rows) {
    if (row.status == RowStatus::unscored) ++scores.reasons[row.why];
    if (!row.set.empty()) {
      apart[row.set].add(row);
      continue;
    }
    if (row.is_failure()) continue;
    sources[row.source].add(row);
    all.add(row);
  }
  scores.sweeps = score_sweeps(rows);
  for (const auto& [name, errors] : sources) {
    scores.sources.push_back(errors.score(name));
    scores.sources.back().spearman = mean_spearman(scores.sweeps, name);
  }
  scores.overall = all.score("all rows");
  scores.overall.spearman = mean_spearman(scores.sweeps, "");
  for (const auto& [name, errors] : apart) scores.apart[name] = errors.score(name);
  scores.headline_time = headline(scores.sources, &SourceScore::time);
  scores.headline_memory = headline(scores.sources, &SourceScore::memory);
  scores.repeats = score_repeats(rows);
  scores.fits = confusion_of(rows);
  return scores;
}

}  // namespace simrun
