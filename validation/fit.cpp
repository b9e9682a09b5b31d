#include "validation/fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "configs/node_groups.h"

namespace simrun {
namespace {

constexpr double far_residual = 0.2;
constexpr int most_rounds = 6;
constexpr double least_change = 2e-3;  // of a coefficient's range: the end of the fit
constexpr double probe = 0.05;         // of the range, for the derivatives
constexpr double noticed = 0.01;

std::string value_text(double value) { return fmt::format("{:.4g}", value); }

class Fitter {
 public:
  Fitter(const std::vector<MeasuredRow>& rows, std::string device,
         const std::vector<FitCoefficient>& coefficients, const ValidateOptions& options)
      : device_(std::move(device)), coefficients_(coefficients), options_(options) {
    for (const FitCoefficient& coefficient : coefficients) at_.push_back(coefficient.start);
    choose_rows(rows);
  }

  DeviceFit fit() {
    DeviceFit found;
    found.device = device_;
    found.rows = rows_.size();
    found.others = others_;
    found.mixed = mixed_;
    if (rows_.empty() || !mixed_.empty()) return found;
    const std::vector<double> before = residuals({});  // with what the device's file says
    for (int round = 0; round < most_rounds; ++round)
      if (step() < least_change) break;
    const std::vector<double> after = residuals(at_);
    const std::vector<std::vector<double>> slopes = derivatives(after);
    describe_coefficients(slopes, found);
    describe_sources(before, after, slopes, found);
    return found;
  }

 private:
  double range(std::size_t c) const { return coefficients_[c].to - coefficients_[c].from; }

  void choose_rows(const std::vector<MeasuredRow>& rows) {
    for (const ValidatedRow& row : validate_rows(rows, options_)) {
      if (!row.counts || !row.set.empty() || !row.is_time() || row.status != RowStatus::scored) continue;
      const Cluster& cluster = row.simulated->job->cluster;
      const GpuKinds kinds(cluster);
      bool ran_there = false;
      for (std::size_t kind = 0; kind < kinds.count(); ++kind)
        ran_there = ran_there || kinds.gpu(kind).name == device_;
      if (!ran_there) {
        others_.insert(gpus_text(cluster));
        continue;
      }
      if (kinds.count() > 1) {
        mixed_.emplace_back(row.row.line, gpus_text(cluster));
        continue;
      }
      rows_.push_back(row.row);
      source_.push_back(row.source);
      ++rows_of_[row.source];
    }
  }

  ValidateOptions with(const std::vector<double>& at) const {
    ValidateOptions changed = options_;
    for (std::size_t c = 0; c < at.size(); ++c)
      changed.load.overrides.push_back({coefficients_[c].key, value_text(at[c])});
    return changed;
  }

  std::vector<double> residuals(const std::vector<double>& at) const {
    std::vector<double> all;
    for (const ValidatedRow& row : validate_rows(rows_, with(at)))
      all.push_back(row.predicted && *row.predicted > 0 ? std::log(*row.predicted / row.measured()) : 0);
    return all;
  }

  // d residual / d coefficient, by one simulation of all rows a coefficient.
  std::vector<std::vector<double>> derivatives(const std::vector<double>& here) const {
    std::vector<std::vector<double>> slopes(here.size(), std::vector<double>(at_.size()));
    for (std::size_t c = 0; c < at_.size(); ++c) {
      std::vector<double> there = at_;
      const double by = at_[c] + probe * range(c) <= coefficients_[c].to ? probe : -probe;
      there[c] += by * range(c);
      const std::vector<double> moved = residuals(there);
      for (std::size_t r = 0; r < here.size(); ++r) slopes[r][c] = (moved[r] - here[r]) / (by * range(c));
    }
    return slopes;
  }

  BoundedSquares problem(const std::vector<double>& here, const std::vector<std::vector<double>>& slopes,
                         const std::string& without) const {
    BoundedSquares made{here, {}, slopes, {}, {}};
    for (std::size_t r = 0; r < here.size(); ++r) {
      const double near = std::min(1.0, far_residual / std::max(std::abs(here[r]), 1e-12));
      made.weights.push_back(source_[r] == without ? 0 : near / static_cast<double>(rows_of_.at(source_[r])));
    }
    for (std::size_t c = 0; c < at_.size(); ++c) {
      made.low.push_back(coefficients_[c].from - at_[c]);
      made.high.push_back(coefficients_[c].to - at_[c]);
    }
    return made;
  }

  // The largest change, as a share of its range.
  double step() {
    const std::vector<double> here = residuals(at_);
    const std::vector<double> by = least_step(problem(here, derivatives(here), ""));
    double largest = 0;
    for (std::size_t c = 0; c < at_.size(); ++c) {
      at_[c] += by[c];
      largest = std::max(largest, std::abs(by[c]) / range(c));
    }
    return largest;
  }

  void describe_coefficients(const std::vector<std::vector<double>>& slopes, DeviceFit& found) const {
    for (std::size_t c = 0; c < at_.size(); ++c) {
      FittedCoefficient fitted{coefficients_[c], at_[c], false, 0};
      const double edge = 1e-6 * range(c);
      fitted.at_bound = at_[c] <= coefficients_[c].from + edge || at_[c] >= coefficients_[c].to - edge;
      std::map<std::string, double> effect;
      for (std::size_t r = 0; r < slopes.size(); ++r) effect[source_[r]] += std::abs(slopes[r][c]) * range(c);
      for (const auto& [source, sum] : effect)
        if (sum / static_cast<double>(rows_of_.at(source)) >= noticed) ++fitted.sources;
      found.coefficients.push_back(fitted);
    }
  }

  void describe_sources(const std::vector<double>& before, const std::vector<double>& after,
                        const std::vector<std::vector<double>>& slopes, DeviceFit& found) const {
    for (const auto& [name, count] : rows_of_) {
      const std::vector<double> by = least_step(problem(after, slopes, name));
      FitSource source{name, count};
      const double n = static_cast<double>(count);
      for (std::size_t r = 0; r < after.size(); ++r) {
        if (source_[r] != name) continue;
        double elsewhere = after[r];
        for (std::size_t c = 0; c < by.size(); ++c) elsewhere += slopes[r][c] * by[c];
        source.before += std::abs(std::expm1(before[r])) / n;
        source.after += std::abs(std::expm1(after[r])) / n;
        source.left_out += std::abs(std::expm1(elsewhere)) / n;
      }
      found.sources.push_back(source);
    }
    const double sources = static_cast<double>(found.sources.size());
    for (const FitSource& source : found.sources) {
      found.before += source.before / sources;
      found.after += source.after / sources;
      found.left_out += source.left_out / sources;
    }
  }

  std::string device_;
  const std::vector<FitCoefficient>& coefficients_;
  const ValidateOptions& options_;
  std::vector<double> at_;
  std::vector<MeasuredRow> rows_;
  std::vector<std::string> source_;  // of each row
  std::map<std::string, std::size_t> rows_of_;
  std::set<std::string> others_;
  std::vector<std::pair<int, std::string>> mixed_;
};

}  // namespace

std::vector<double> least_step(const BoundedSquares& problem) {
  constexpr int sweeps = 500;
  const std::size_t count = problem.low.size();
  std::vector<double> step(count, 0);
  std::vector<double> left = problem.residuals;
  for (int sweep = 0; sweep < sweeps; ++sweep)
    for (std::size_t c = 0; c < count; ++c) {
      double gradient = 0, curvature = 0;
      for (std::size_t r = 0; r < left.size(); ++r) {
        gradient += problem.weights[r] * problem.slopes[r][c] * left[r];
        curvature += problem.weights[r] * problem.slopes[r][c] * problem.slopes[r][c];
      }
      if (curvature <= 0) continue;
      const double to = std::clamp(step[c] - gradient / curvature, problem.low[c], problem.high[c]);
      for (std::size_t r = 0; r < left.size(); ++r) left[r] += problem.slopes[r][c] * (to - step[c]);
      step[c] = to;
    }
  return step;
}

DeviceFit fit_device(const std::vector<MeasuredRow>& rows, const std::string& device,
                     const std::vector<FitCoefficient>& coefficients, const ValidateOptions& options) {
  return Fitter(rows, device, coefficients, options).fit();
}

std::string fit_yaml(const DeviceFit& fit, const std::string& rows_file) {
  const bool has_others = fit.sources.size() > 1;
  std::string text = fmt::format(
      "# {}: fitted by simrun --fit {} --device {} on {} rows of {} sources. Mean |error| over sources: "
      "{:.1f} %\n"
      "# before, {:.1f} % after, {}.\n",
      fit.device, rows_file, fit.device, fit.rows, fit.sources.size(), 100 * fit.before, 100 * fit.after,
      has_others ? fmt::format("{:.1f} % of each source where the others alone decide", 100 * fit.left_out)
                 : "no other source to leave it to");
  if (fit.after > fit.before)
    text +=
        "# What the device's file says is nearer to these rows on average than what was fitted to them.\n";
  std::size_t width = 0;
  for (const FitSource& source : fit.sources) width = std::max(width, source.name.size());
  for (const FitSource& source : fit.sources)
    text += fmt::format("#   {:<{}} {:4} rows  {:5.1f} %  {:5.1f} %{}\n", source.name, width, source.rows,
                        100 * source.before, 100 * source.after,
                        has_others ? fmt::format("  {:5.1f} %", 100 * source.left_out) : "");
  std::map<std::string, std::string> sections;
  for (const FittedCoefficient& fitted : fit.coefficients) {
    const std::string path = fitted.of.key.substr(std::string("cluster.gpu.").size());
    const std::size_t dot = path.find('.');
    const std::string section = dot == std::string::npos ? "" : path.substr(0, dot);
    sections[section] +=
        fmt::format("{}{}: {}  # {} sources{}: {}\n", section.empty() ? "" : "  ",
                    path.substr(section.empty() ? 0 : dot + 1), value_text(fitted.value), fitted.sources,
                    fitted.at_bound ? ", at its bound" : "", fitted.of.reason);
  }
  for (const auto& [section, lines] : sections) text += (section.empty() ? "" : section + ":\n") + lines;
  return text;
}

}  // namespace simrun
