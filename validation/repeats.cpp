#include "validation/repeats.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>

namespace simrun {
namespace {

constexpr double same_measurement = 1e-3;

// A duration by the job's predicted one, measured as a time or as a throughput.
struct Run {
  bool is_time = false;
  double duration = 1;
};

double error_of(const Run& run, double predicted) {
  return run.is_time ? predicted / run.duration - 1 : run.duration / predicted - 1;
}

double mean_error(const std::vector<Run>& runs, double predicted) {
  const double sum = std::accumulate(runs.begin(), runs.end(), 0.0, [&](double before, const Run& run) {
    return before + std::abs(error_of(run, predicted));
  });
  return sum / static_cast<double>(runs.size());
}

// Between two measurements the sum of |error| is a d + b / d + c, of the prediction d: least at one of them,
// or at sqrt(b / a).
double least_error(std::vector<Run> runs) {
  std::ranges::sort(runs, {}, &Run::duration);
  double least = mean_error(runs, runs.front().duration);
  for (std::size_t below = 0; below + 1 < runs.size(); ++below) {
    least = std::min(least, mean_error(runs, runs[below + 1].duration));
    double a = 0, b = 0;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const double sign = i <= below ? 1 : -1;
      if (runs[i].is_time)
        a += sign / runs[i].duration;
      else
        b -= sign * runs[i].duration;
    }
    if (a <= 0 || b <= 0) continue;
    const double between = std::clamp(std::sqrt(b / a), runs[below].duration, runs[below + 1].duration);
    least = std::min(least, mean_error(runs, between));
  }
  return least;
}

void add(std::vector<Run>& runs, const Run& run) {
  const bool is_known = std::ranges::any_of(
      runs, [&](const Run& known) { return std::abs(known.duration / run.duration - 1) < same_measurement; });
  if (!is_known) runs.push_back(run);
}

}  // namespace

RepeatScore score_repeats(const std::vector<ValidatedRow>& rows) {
  std::map<std::string, std::vector<Run>> jobs;
  for (const ValidatedRow& row : rows)
    if (row.has_scored_time() && row.duration_ratio() > 0)
      add(jobs[row.yaml], {row.row[Column::measured_metric] == "iter_time_s", row.duration_ratio()});
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
