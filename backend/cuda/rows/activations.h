#pragma once

#include <cmath>

#include "backend/cuda/rows/lanes.h"

// Activation functions and their gradients, element by element.
namespace simrun::cuda {

enum class Activation : std::uint8_t { gelu, silu, relu, squared_relu };

template <class Math>
struct ActivationValue {
  Activation which;
  SIMRUN_HD static Math gelu_tanh(Math x) {
    // sqrt(2 / pi) (x + 0.044715 x^3): Hendrycks and Gimpel 2016, arXiv 1606.08415, section 2.
    return std::tanh(static_cast<Math>(0.7978845608028654) * (x + static_cast<Math>(0.044715) * x * x * x));
  }
  SIMRUN_HD Math value(Math x) const {
    switch (which) {
      case Activation::gelu: return x / 2 * (1 + gelu_tanh(x));
      case Activation::silu: return x / (1 + std::exp(-x));
      case Activation::relu: return x > 0 ? x : 0;
      default: return x > 0 ? x * x : 0;
    }
  }
  SIMRUN_HD Math slope(Math x) const {
    switch (which) {
      case Activation::gelu: {
        const Math t = gelu_tanh(x), root = static_cast<Math>(0.7978845608028654);
        return (1 + t) / 2 + x / 2 * (1 - t * t) * root * (1 + 3 * static_cast<Math>(0.044715) * x * x);
      }
      case Activation::silu: {
        const Math sigmoid = 1 / (1 + std::exp(-x));
        return sigmoid * (1 + x * (1 - sigmoid));
      }
      case Activation::relu: return x > 0 ? 1 : 0;
      default: return x > 0 ? 2 * x : 0;
    }
  }
};

// x + bias.
template <class Math>
struct Biased {
  Reals<Math> x, bias;
  Places places;
  SIMRUN_HD Math operator()(std::int64_t i) const { return bias ? x[i] + bias[places(i)] : x[i]; }
};

// out = f(x), or of rows of `gated` gates, then as many values, f(gate) value; or the values lie apart.
template <class Math>
struct ActivationElement {
  std::int64_t count;  // of out
  ActivationValue<Math> f;
  Biased<Math> x;
  Reals<Math> to;
  std::int64_t gated;  // 0: plain
  Reals<Math> values;
  SIMRUN_HD void operator()(std::int64_t i) const {
    if (values) return to.set(i, f.value(x(i)) * values[i]);
    if (gated == 0) return to.set(i, f.value(x(i)));
    const std::int64_t gate = 2 * (i / gated) * gated + i % gated;
    to.set(i, f.value(x(gate)) * x(gate + gated));
  }
};

template <class Math>
struct ActivationBackwardElement {
  std::int64_t count;  // of the gradient that comes
  ActivationValue<Math> f;
  Biased<Math> x;
  Reals<Math> gradient, to;
  std::int64_t gated;
  Reals<Math> values, to_values;
  SIMRUN_HD void operator()(std::int64_t i) const {
    const Math g = gradient[i];
    if (values) {
      to.set(i, g * values[i] * f.slope(x(i)));
      return to_values.set(i, g * f.value(x(i)));
    }
    if (gated == 0) return to.set(i, g * f.slope(x(i)));
    const std::int64_t gate = 2 * (i / gated) * gated + i % gated;
    to.set(gate, g * x(gate + gated) * f.slope(x(gate)));
    to.set(gate + gated, g * f.value(x(gate)));
  }
};

// cap tanh(x / cap); backward: from the output y, gradient (1 - (y / cap)^2).
template <class Math>
struct SoftCapElement {
  std::int64_t count;
  Reals<Math> x, gradient, to;  // x: the output where there is a gradient
  Math cap;
  SIMRUN_HD void operator()(std::int64_t i) const {
    const Math share = x[i] / cap;
    to.set(i, gradient ? gradient[i] * (1 - share * share) : cap * std::tanh(share));
  }
};

// ReLU's gradient from its output.
template <class Math>
struct ReluBackwardElement {
  std::int64_t count;
  Reals<Math> gradient, y, to;
  SIMRUN_HD void operator()(std::int64_t i) const { to.set(i, y[i] > 0 ? gradient[i] : 0); }
};

}  // namespace simrun::cuda
