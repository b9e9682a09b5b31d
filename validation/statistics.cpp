#include "validation/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace simrun {
namespace {

std::vector<double> ranks_of(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t v) { return values[v]; });
  std::vector<double> ranks(values.size());
  for (std::size_t first = 0; first < order.size();) {
    std::size_t end = first;
    while (end < order.size() && values[order[end]] == values[order[first]]) ++end;
    const double mean = (static_cast<double>(first) + static_cast<double>(end - 1)) / 2;
    for (; first < end; ++first) ranks[order[first]] = mean;
  }
  return ranks;
}

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

double percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const double place = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (place - static_cast<double>(below)) * (values[above] - values[below]);
}

ErrorStatistics error_statistics(const std::vector<double>& errors, std::size_t unscored) {
  ErrorStatistics statistics;
  statistics.rows = errors.size() + unscored;
  statistics.unscored = unscored;
  if (statistics.rows == 0) return statistics;
  std::vector<double> sizes;
  sizes.reserve(errors.size());
  for (const double error : errors) sizes.push_back(std::abs(error));
  const double sum = std::accumulate(sizes.begin(), sizes.end(), 0.0);
  statistics.honest_mape = (sum + static_cast<double>(unscored)) / static_cast<double>(statistics.rows);
  if (errors.empty()) return statistics;
  statistics.mape = mean_of(sizes);
  statistics.bias = mean_of(errors);
  statistics.median = percentile(sizes, 0.5);
  statistics.p90 = percentile(sizes, 0.9);
  return statistics;
}

double weighted_percentile(const std::vector<std::pair<double, double>>& sorted, double share) {
  if (sorted.empty()) return 0;
  const auto steps = [&](std::size_t k) { return (sorted[k].second + sorted[k + 1].second) / 2; };
  double whole = 0;
  for (std::size_t k = 0; k + 1 < sorted.size(); ++k) whole += steps(k);
  double left = share * whole;
  for (std::size_t k = 0; k + 1 < sorted.size(); ++k) {
    if (left <= steps(k)) return sorted[k].first + (sorted[k + 1].first - sorted[k].first) * left / steps(k);
    left -= steps(k);
  }
  return sorted.back().first;
}

std::optional<double> spearman(const std::vector<double>& one, const std::vector<double>& other) {
  if (one.size() < 2 || one.size() != other.size()) return std::nullopt;
  const std::vector<double> a = ranks_of(one), b = ranks_of(other);
  const double mean = static_cast<double>(a.size() - 1) / 2;
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ab += (a[i] - mean) * (b[i] - mean);
    aa += (a[i] - mean) * (a[i] - mean);
    bb += (b[i] - mean) * (b[i] - mean);
  }
  if (aa <= 0 || bb <= 0) return std::nullopt;
  return ab / std::sqrt(aa * bb);
}

}  // namespace simrun
