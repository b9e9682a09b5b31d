#pragma once

#include <cmath>

#include "backend/cuda/rows/lanes.h"

// Optimizer updates (OPTIMIZER), element by element, in double whatever is stored.
namespace simrun::cuda {

// Adam with decoupled weight decay (Loshchilov and Hutter 2019), or with `second` empty SGD with momentum.
template <class Math>
struct UpdateElement {
  std::int64_t count;
  Reals<Math> gradient, weights, main;  // main: where the update is kept, weights or more precise ones
  Reals<Math> first, second;            // moments; sgd has none or one
  Reals<Math> squares;                  // the gradient's sum of squares, one number; or none: no clipping
  double most_norm;
  double rate, beta1, beta2, epsilon, decay, momentum;
  double first_correction, second_correction;  // 1 / (1 - beta^steps)
  bool is_adam;

  SIMRUN_HD void operator()(std::int64_t i) const {
    double clip = 1;
    if (squares) clip = most_norm / (std::sqrt(static_cast<double>(squares[0])) + 1e-6);
    const double g = static_cast<double>(gradient[i]) * (clip < 1 ? clip : 1);
    const double w = static_cast<double>(main[i]);
    const Math updated = static_cast<Math>(is_adam ? adam(i, g, w) : sgd(i, g, w));
    main.set(i, updated);
    if (main.data != weights.data) weights.set(i, updated);
  }

 private:
  SIMRUN_HD double adam(std::int64_t i, double g, double w) const {
    const double m = beta1 * static_cast<double>(first[i]) + (1 - beta1) * g;
    const double v = beta2 * static_cast<double>(second[i]) + (1 - beta2) * g * g;
    first.set(i, static_cast<Math>(m));
    second.set(i, static_cast<Math>(v));
    return w - rate * (m * first_correction / (std::sqrt(v * second_correction) + epsilon) + decay * w);
  }
  SIMRUN_HD double sgd(std::int64_t i, double g, double w) const {
    g += decay * w;
    if (first) {
      g += momentum * static_cast<double>(first[i]);
      first.set(i, static_cast<Math>(g));
    }
    return w - rate * g;
  }
};

}  // namespace simrun::cuda
