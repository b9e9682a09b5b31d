#include "validation/repeats.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>

namespace simrun {
namespace {

constexpr double same_measurement = 1e-3;

// One measurement, as its error with the job's own prediction; every metric of a job has the same ratio of
// throughputs, and a time has its inverse.
struct Run {
  bool is_time = false;
  double slower = 1;  // measured by predicted duration
};

double error_of(const Run& run, double duration) {
  return run.is_time ? duration / run.slower - 1 : run.slower / duration - 1;
}

double mean_error(const std::vector<Run>& runs, double duration) {
  const double sum = std::accumulate(runs.begin(), runs.end(), 0.0, [&](double before, const Run& run) {
    return before + std::abs(error_of(run, duration));
  });
  return sum / static_cast<double>(runs.size());
}

// The sum of |error| is piecewise linear in the duration (times) or in its inverse (throughputs), so least at
// a measurement; where a job has both kinds, it is the least of those places.
double least_error(const std::vector<Run>& runs) {
  double least = mean_error(runs, runs.front().slower);
  for (const Run& run : runs) least = std::min(least, mean_error(runs, run.slower));
  return least;
}

void add(std::vector<Run>& runs, const Run& run) {
  const bool is_known = std::ranges::any_of(
      runs, [&](const Run& known) { return std::abs(known.slower / run.slower - 1) < same_measurement; });
  if (!is_known) runs.push_back(run);
}

}  // namespace

RepeatScore score_repeats(const std::vector<ValidatedRow>& rows) {
  std::map<std::string, std::vector<Run>> jobs;
  for (const ValidatedRow& row : rows) {
    if (!row.set.empty() || !row.counts || !row.is_time() || row.status != RowStatus::scored) continue;
    const bool is_time = row.row[Column::measured_metric] == "iter_time_s";
    const double factor = *row.predicted / row.measured();
    add(jobs[row.yaml], {is_time, is_time ? 1 / factor : factor});
  }
  RepeatScore score;
  for (const auto& [yaml, runs] : jobs) {
    if (runs.size() < 2) continue;
    ++score.jobs;
    score.runs += runs.size();
    score.least_mape += least_error(runs) * static_cast<double>(runs.size());
    score.mape += mean_error(runs, 1) * static_cast<double>(runs.size());
  }
  if (score.runs == 0) return score;
  score.least_mape /= static_cast<double>(score.runs);
  score.mape /= static_cast<double>(score.runs);
  return score;
}

}  // namespace simrun
