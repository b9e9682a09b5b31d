#include <cmath>
#include <vector>

#include "backend/cpu_kernels.h"

namespace simrun::cpu {
namespace {

// One row of a norm: y = (x - mean) r weight + bias, without mean and bias for an RMS norm.
template <class Real>
struct Row {
  const Real* x;
  const Real* weight;
  std::int64_t n;
  bool centred;  // layer norm

  Real mean() const {
    if (!centred) return 0;
    Real sum = 0;
    for (std::int64_t i = 0; i < n; ++i) sum += x[i];
    return sum / static_cast<Real>(n);
  }
  Real inverse_deviation(Real mean, double epsilon) const {
    Real squares = 0;
    for (std::int64_t i = 0; i < n; ++i) squares += (x[i] - mean) * (x[i] - mean);
    return 1 / std::sqrt(squares / static_cast<Real>(n) + static_cast<Real>(epsilon));
  }
};

// Of x, with xhat = (x - mean) r and g = dy weight: r (g - [mean of g] - xhat mean(g xhat)). Adds dy xhat to
// the weight's gradient.
template <class Real>
void row_backward(const Row<Real>& row, const Real* dy, const Real* statistics, Real* dx, Real* dweight) {
  const Real mean = row.centred ? statistics[0] : 0;
  const Real r = row.centred ? statistics[1] : statistics[0];
  Real sum = 0, product = 0;
  for (std::int64_t i = 0; i < row.n; ++i) {
    const Real g = dy[i] * row.weight[i], xhat = (row.x[i] - mean) * r;
    sum += g;
    product += g * xhat;
    dweight[i] += dy[i] * xhat;
  }
  const auto n = static_cast<Real>(row.n);
  const Real shift = row.centred ? sum / n : 0;
  for (std::int64_t i = 0; i < row.n; ++i)
    dx[i] = r * (dy[i] * row.weight[i] - shift - (row.x[i] - mean) * r * product / n);
}

// Of packed q, k, v [.., qkv, head_dim] a row is one head; which weight it has, or -1 for v.
std::int64_t weight_row(std::int64_t row, std::int64_t qkv) {
  const std::int64_t place = row % qkv;
  return place < qkv - 2 ? 0 : place == qkv - 2 ? 1 : -1;
}

template <class Real>
void clear_unless_added(const KernelCall& call, const Argument& output) {
  if (!adds_to(call, output)) std::fill_n(reals<Real>(output), elements(output.part), Real{0});
}

// Where the gradients go. Outputs are those that are wanted of x, weight and bias, in this order: of a frozen
// norm there is x's alone, of one behind frozen layers the others. What is not wanted goes nowhere.
template <class Real>
struct NormGradients {
  Real *x = nullptr, *weight = nullptr, *bias = nullptr;
  std::vector<Real> row, unwanted;

  NormGradients(const KernelCall& call, const Argument& of)
      : row(static_cast<std::size_t>(last_extent(of))),
        unwanted(static_cast<std::size_t>(elements(call.inputs[2].part))) {
    std::size_t next = 0;
    const bool wants_x = call.outputs[0].part.size() == of.part.size();
    if (wants_x) x = reals<Real>(call.outputs[next++]);
    weight = next < call.outputs.size() ? reals<Real>(call.outputs[next]) : unwanted.data();
    if (next + 1 < call.outputs.size()) bias = reals<Real>(call.outputs[next + 1]);
    for (; next < call.outputs.size(); ++next) clear_unless_added<Real>(call, call.outputs[next]);
  }
  Real* of_row(std::int64_t at, std::int64_t n) { return x != nullptr ? x + at * n : row.data(); }
};

}  // namespace

template <class Real>
void run_norm(const KernelCall& call) {
  if (call.what.function == Function::batch_norm) return run_batch_norm<Real>(call);
  const Argument& x = call.inputs[0];
  const bool centred = call.what.function == Function::layer_norm;
  const bool of_heads = call.what.function == Function::qk_norm;
  const std::int64_t n = last_extent(x), rows = rows_of(x), kept = last_extent(call.outputs[1]);
  const std::int64_t qkv = of_heads ? part_named(call, x, "qkv").extent : 1;
  const Real* bias = call.inputs.size() > 2 ? reals<Real>(call.inputs[2]) : nullptr;
  for (std::int64_t at = 0; at < rows; ++at) {
    const std::int64_t weight = of_heads ? weight_row(at, qkv) : 0;
    const Row<Real> row{reals<Real>(x) + at * n,
                        reals<Real>(call.inputs[1]) + std::max<std::int64_t>(weight, 0) * n, n, centred};
    Real* y = reals<Real>(call.outputs[0]) + at * n;
    Real* statistics = reals<Real>(call.outputs[1]) + at * kept;
    if (weight < 0) {
      std::copy_n(row.x, n, y);
      statistics[0] = 1;
      continue;
    }
    const Real mean = row.mean(), r = row.inverse_deviation(mean, call.what.constants.at(0));
    for (std::int64_t i = 0; i < n; ++i)
      y[i] = (row.x[i] - mean) * r * row.weight[i] + (bias != nullptr ? bias[i] : 0);
    if (centred) statistics[0] = mean;
    statistics[centred ? 1 : 0] = r;
  }
}

template <class Real>
void run_norm_backward(const KernelCall& call) {
  if (call.what.function == Function::batch_norm) return run_batch_norm_backward<Real>(call);
  const Argument& x = call.inputs[1];
  const bool centred = call.what.function == Function::layer_norm;
  const bool of_heads = call.what.function == Function::qk_norm;
  const std::int64_t n = last_extent(x), rows = rows_of(x), kept = last_extent(call.inputs[3]);
  const std::int64_t qkv = of_heads ? part_named(call, x, "qkv").extent : 1;
  NormGradients<Real> to(call, x);
  for (std::int64_t at = 0; at < rows; ++at) {
    const Real* dy = reals<Real>(call.inputs[0]) + at * n;
    Real* dx = to.of_row(at, n);
    const std::int64_t weight = of_heads ? weight_row(at, qkv) : 0;
    if (weight < 0) {
      std::copy_n(dy, n, dx);
      continue;
    }
    const Row<Real> row{reals<Real>(x) + at * n, reals<Real>(call.inputs[2]) + weight * n, n, centred};
    row_backward(row, dy, reals<Real>(call.inputs[3]) + at * kept, dx, to.weight + weight * n);
    for (std::int64_t i = 0; to.bias != nullptr && i < n; ++i) to.bias[i] += dy[i];
  }
}

template void run_norm<float>(const KernelCall&);
template void run_norm<double>(const KernelCall&);
template void run_norm_backward<float>(const KernelCall&);
template void run_norm_backward<double>(const KernelCall&);

}  // namespace simrun::cpu
