#include <cmath>
#include <numbers>
#include <optional>

#include "backend/cpu/kernels.h"
#include "backend/cpu/math.h"

namespace simrun::cpu {
namespace {

// x/2 (1 + tanh u), u = sqrt(2 / pi) (x + 0.044715 x^3): Hendrycks and Gimpel 2016, arXiv 1606.08415,
// section 2.
template <class Real>
struct Gelu {
  static constexpr Real root = static_cast<Real>(std::numbers::inv_sqrtpi_v<double> * std::numbers::sqrt2);
  static constexpr Real cubic = static_cast<Real>(0.044715);
  static Real value(Real x) { return x / 2 * (1 + std::tanh(root * (x + cubic * x * x * x))); }
  static Real slope(Real x) {
    const Real t = std::tanh(root * (x + cubic * x * x * x));
    return (1 + t) / 2 + x / 2 * (1 - t * t) * root * (1 + 3 * cubic * x * x);
  }
};

// in0 (+ bias), element by element.
template <class Real>
class Biased {
 public:
  Biased(const Argument& x, const Argument* bias) : x_(reals<Real>(x)) {
    if (bias == nullptr) return;
    bias_ = reals<Real>(*bias);
    index_.emplace(x, *bias);
  }
  Real operator()(std::int64_t i) const { return bias_ == nullptr ? x_[i] : x_[i] + bias_[(*index_)(i)]; }

 private:
  const Real* x_;
  const Real* bias_ = nullptr;
  std::optional<BroadcastIndex> index_;
};

template <class Real>
Biased<Real> biased(const KernelCall& call, std::size_t x) {
  return {call.inputs[x], call.inputs.size() > x + 1 ? &call.inputs[x + 1] : nullptr};
}

template <class Real, class Fn>
void plain(const KernelCall& call) {
  const Biased<Real> x = biased<Real>(call, 0);
  Real* to = reals<Real>(call.outputs[0]);
  const std::int64_t count = elements(call.outputs[0].part);
  for (std::int64_t i = 0; i < count; ++i) to[i] = Fn::value(x(i));
}

template <class Real, class Fn>
void plain_backward(const KernelCall& call) {
  const Biased<Real> x = biased<Real>(call, 1);
  const Real* gradient = reals<Real>(call.inputs[0]);
  Real* to = reals<Real>(call.outputs[0]);
  const std::int64_t count = elements(call.outputs[0].part);
  for (std::int64_t i = 0; i < count; ++i) to[i] = gradient[i] * Fn::slope(x(i));
}

// Rows of [gate, ffn]: n gates, then n values.
template <class Real, class Fn>
void gated(const KernelCall& call) {
  const Biased<Real> x = biased<Real>(call, 0);
  Real* to = reals<Real>(call.outputs[0]);
  const std::int64_t n = last_extent(call.outputs[0]), rows = rows_of(call.outputs[0]);
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t i = 0; i < n; ++i)
      to[row * n + i] = Fn::value(x(2 * row * n + i)) * x((2 * row + 1) * n + i);
}

template <class Real, class Fn>
void gated_backward(const KernelCall& call) {
  const Biased<Real> x = biased<Real>(call, 1);
  const Real* gradient = reals<Real>(call.inputs[0]);
  Real* to = reals<Real>(call.outputs[0]);
  const std::int64_t n = last_extent(call.inputs[0]), rows = rows_of(call.inputs[0]);
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t gate = 2 * row * n + i, value = gate + n;
      const Real g = gradient[row * n + i];
      to[gate] = g * x(value) * Fn::slope(x(gate));
      to[value] = g * Fn::value(x(gate));
    }
}

// Gradient from the output y alone: slope(y) x gradient.
template <class Real, class Slope>
void from_output(const KernelCall& call, Slope slope) {
  const Real *gradient = reals<Real>(call.inputs[0]), *y = reals<Real>(call.inputs[1]);
  Real* to = reals<Real>(call.outputs[0]);
  const std::int64_t count = elements(call.outputs[0].part);
  for (std::int64_t i = 0; i < count; ++i) to[i] = gradient[i] * slope(y[i]);
}

template <class Real>
struct Relu {
  static Real value(Real x) { return std::max(x, Real{0}); }
};

template <class Real>
struct Tanh {
  static Real value(Real x) { return std::tanh(x); }
};

template <class Real>
struct SquaredRelu {
  static Real value(Real x) { return x > 0 ? x * x : 0; }
  static Real slope(Real x) { return x > 0 ? 2 * x : 0; }
};

template <class Real>
void soft_cap(const KernelCall& call) {
  const auto cap = static_cast<Real>(call.what.constants.at(0));
  const Real* x = reals<Real>(call.inputs[0]);
  Real* to = reals<Real>(call.outputs[0]);
  const std::int64_t count = elements(call.outputs[0].part);
  for (std::int64_t i = 0; i < count; ++i) to[i] = cap * std::tanh(x[i] / cap);
}

// GELU row by row of the bias, or all at once without one. False where the bias is no row.
template <class Real>
bool gelu_rows(const KernelCall& call, std::size_t x) {
  const bool has_bias = call.inputs.size() > x + 1;
  const std::int64_t count = elements(call.outputs[0].part);
  const std::int64_t row = has_bias ? BroadcastIndex(call.inputs[x], call.inputs[x + 1]).row() : count;
  if (row == 0) return false;
  const Real* from = reals<Real>(call.inputs[x]);
  const Real* bias = has_bias ? reals<Real>(call.inputs[x + 1]) : nullptr;
  Real* to = reals<Real>(call.outputs[0]);
  for (std::int64_t i = 0; i < count; i += row) {
    if (x == 0)
      math<Real>().gelu(from + i, bias, to + i, row);
    else
      math<Real>().gelu_backward(reals<Real>(call.inputs[0]) + i, from + i, bias, to + i, row);
  }
  return true;
}

// Without a bias.
template <class Real>
void swiglu_rows(const KernelCall& call) {
  const Real* x = reals<Real>(call.inputs[0]);
  Real* to = reals<Real>(call.outputs[0]);
  const std::int64_t n = last_extent(call.outputs[0]), rows = rows_of(call.outputs[0]);
  for (std::int64_t row = 0; row < rows; ++row)
    math<Real>().swiglu(x + 2 * row * n, x + (2 * row + 1) * n, to + row * n, n);
}
template <class Real>
void swiglu_backward_rows(const KernelCall& call) {
  const Real *g = reals<Real>(call.inputs[0]), *x = reals<Real>(call.inputs[1]);
  Real* to = reals<Real>(call.outputs[0]);
  const std::int64_t n = last_extent(call.inputs[0]), rows = rows_of(call.inputs[0]);
  for (std::int64_t row = 0; row < rows; ++row)
    math<Real>().swiglu_backward(g + row * n, x + 2 * row * n, to + 2 * row * n, n);
}

// The gates and the values apart.
template <class Real, class Fn>
void two_inputs(const KernelCall& call) {
  const Real *gate = reals<Real>(call.inputs[0]), *value = reals<Real>(call.inputs[1]);
  Real* to = reals<Real>(call.outputs[0]);
  const std::int64_t count = elements(call.outputs[0].part);
  for (std::int64_t i = 0; i < count; ++i) to[i] = Fn::value(gate[i]) * value[i];
}

// Where one gradient is wanted, constants[0] says of which input.
template <class Real, class Fn>
void two_inputs_backward(const KernelCall& call) {
  const Real *gradient = reals<Real>(call.inputs[0]), *gate = reals<Real>(call.inputs[1]),
             *value = reals<Real>(call.inputs[2]);
  const bool both = call.outputs.size() == 2, only_value = !both && call.what.constants.at(0) == 1;
  Real* to_gate = only_value ? nullptr : reals<Real>(call.outputs[0]);
  Real* to_value = both || only_value ? reals<Real>(call.outputs.back()) : nullptr;
  const std::int64_t count = elements(call.inputs[0].part);
  for (std::int64_t i = 0; to_gate != nullptr && i < count; ++i)
    to_gate[i] = gradient[i] * value[i] * Fn::slope(gate[i]);
  for (std::int64_t i = 0; to_value != nullptr && i < count; ++i)
    to_value[i] = gradient[i] * Fn::value(gate[i]);
}

}  // namespace

template <class Real>
void run_activation(const KernelCall& call) {
  switch (call.what.function) {
    case Function::gelu:
      if (!gelu_rows<Real>(call, 0)) plain<Real, Gelu<Real>>(call);
      return;
    case Function::gelu_backward:
      if (!gelu_rows<Real>(call, 1)) plain_backward<Real, Gelu<Real>>(call);
      return;
    case Function::relu: return plain<Real, Relu<Real>>(call);
    case Function::relu_backward:
      return from_output<Real>(call, [](Real y) { return Real{y > 0 ? 1.0f : 0.0f}; });
    case Function::squared_relu: return plain<Real, SquaredRelu<Real>>(call);
    case Function::squared_relu_backward: return plain_backward<Real, SquaredRelu<Real>>(call);
    case Function::swiglu:
      return call.inputs.size() > 1 ? gated<Real, Silu<Real>>(call) : swiglu_rows<Real>(call);
    case Function::swiglu_backward:
      return call.inputs.size() > 2 ? gated_backward<Real, Silu<Real>>(call)
                                    : swiglu_backward_rows<Real>(call);
    case Function::geglu: return gated<Real, Gelu<Real>>(call);
    case Function::geglu_backward: return gated_backward<Real, Gelu<Real>>(call);
    case Function::gated_silu: return two_inputs<Real, Silu<Real>>(call);
    case Function::gated_silu_backward: return two_inputs_backward<Real, Silu<Real>>(call);
    case Function::gated_gelu: return two_inputs<Real, Gelu<Real>>(call);
    case Function::gated_gelu_backward: return two_inputs_backward<Real, Gelu<Real>>(call);
    case Function::gated_sigmoid: return two_inputs<Real, Sigmoid<Real>>(call);
    case Function::gated_sigmoid_backward: return two_inputs_backward<Real, Sigmoid<Real>>(call);
    case Function::tanh: return plain<Real, Tanh<Real>>(call);
    case Function::tanh_backward: return from_output<Real>(call, [](Real y) { return 1 - y * y; });
    case Function::soft_cap: return soft_cap<Real>(call);
    case Function::soft_cap_backward: {
      const auto cap = static_cast<Real>(call.what.constants.at(0));
      return from_output<Real>(call, [cap](Real y) { return 1 - y / cap * (y / cap); });
    }
    default: return;  // refused before anything runs
  }
}

template void run_activation<float>(const KernelCall&);
template void run_activation<double>(const KernelCall&);

}  // namespace simrun::cpu
