#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

namespace simrun {

// Relative errors (predicted - measured) / measured of some rows. 0 where there are none.
struct ErrorStatistics {
  std::size_t rows = 0;  // scored and unscored
  std::size_t unscored = 0;
  double mape = 0;         // mean of |error| over what is scored
  double median = 0;       // of |error|
  double p90 = 0;          // 90th percentile of |error|
  double bias = 0;         // mean error: above 0 where predictions are too high
  double honest_mape = 0;  // mean of |error| with 1 for each unscored row
  std::size_t scored() const { return rows - unscored; }
};
ErrorStatistics error_statistics(const std::vector<double>& errors, std::size_t unscored);

// Linear between the two nearest of the sorted values, at place share x (n - 1). 0 of none.
double percentile(std::vector<double> values, double share);

// The same of sorted (value, weight): each value stands at the middle of its weight, the first at 0 and the
// last at 1.
double weighted_percentile(const std::vector<std::pair<double, double>>& sorted, double share);

// Pearson's correlation of the ranks; equal values share the mean of their ranks (Spearman 1904). Nothing for
// fewer than two values, or where one side is all equal.
std::optional<double> spearman(const std::vector<double>& one, const std::vector<double>& other);

}  // namespace simrun
