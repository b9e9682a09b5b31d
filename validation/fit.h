#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "validation/validate.h"

namespace simrun {

// A number of a device's file that a fit may change: configs/validation/coefficients.yaml.
struct FitCoefficient {
  std::string name;
  std::string key;  // in a job: cluster.gpu. and the path within the device's file
  double start = 0, from = 0, to = 0;
  std::string reason;
  bool operator==(const FitCoefficient&) const = default;
};

// In the order of the file. Throws ConfigError with every problem, or if no preset directory has the file.
std::vector<FitCoefficient> load_coefficients(const LoadOptions& options);

struct FittedCoefficient {
  FitCoefficient of;
  double value = 0;
  bool at_bound = false;
  std::size_t sources = 0;  // whose predictions change by 1 % or more from one bound to the other
};

// Mean |predicted / measured - 1| of a source's rows, its own weight in the fit being 0 in `left_out`.
struct FitSource {
  std::string name;
  std::size_t rows = 0;
  double before = 0, after = 0, left_out = 0;
};

// What fitting a device's coefficients to measured times found.
struct DeviceFit {
  std::string device;
  std::vector<FittedCoefficient> coefficients;
  std::vector<FitSource> sources;  // by name
  std::size_t rows = 0;
  double before = 0, after = 0, left_out = 0;  // means over sources
  std::set<std::string> others;                // devices of the rows that ran elsewhere
  // Rows that ran on the device and another kind at once, which nothing is fitted to: their lines in the file
  // and their GPUs. If there are any, nothing was fitted.
  std::vector<std::pair<int, std::string>> mixed;
};

// Least squares of log(predicted / measured) over the rows that count, were not set apart and ran on the
// device, every source weighing the same and a row further off than e^0.2 only in proportion to its distance
// (Huber 1964); within the bounds, by Gauss-Newton steps with derivatives from simulations. left_out is
// linear in the coefficients around the fit and says nothing of a single source. No row, or one that ran on
// several kinds of GPU at once, the device among them: an empty fit.
DeviceFit fit_device(const std::vector<MeasuredRow>& rows, const std::string& device,
                     const std::vector<FitCoefficient>& coefficients, const ValidateOptions& options);

// The coefficients as part of a device's file, with what supports them.
std::string fit_yaml(const DeviceFit& fit, const std::string& rows_file);

// min over steps within [low, high] of sum_r weight_r (residual_r + sum_c slope_rc step_c)^2: coordinate
// descent, which ends at the minimum as the sum is convex. slopes: residuals x coefficients.
struct BoundedSquares {
  std::vector<double> residuals, weights;
  std::vector<std::vector<double>> slopes;
  std::vector<double> low, high;
};
std::vector<double> least_step(const BoundedSquares& problem);

}  // namespace simrun
