#include <cmath>
#include <vector>

#include "backend/cpu/kernels.h"

// Batch norm of [.., channels] (Ioffe and Szegedy 2015, arXiv 1502.03167, algorithm 1) over all rows that the
// rank has.
namespace simrun::cpu {
namespace {

// Sums by channel, in `double` whatever the type of the values is: there are many.
using Sums = std::vector<double>;

template <class Real, class Term>
Sums sum_by_channel(const Argument& x, Term term) {
  const std::int64_t n = last_extent(x), rows = rows_of(x);
  Sums sums(static_cast<std::size_t>(n), 0.0);
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t c = 0; c < n; ++c)
      sums[static_cast<std::size_t>(c)] += static_cast<double>(term(row * n + c, c));
  return sums;
}

}  // namespace

template <class Real>
void run_batch_norm(const KernelCall& call) {
  const Argument &x = call.inputs[0], &y = call.outputs[0];
  const Real *values = reals<Real>(x), *weight = reals<Real>(call.inputs[1]),
             *bias = reals<Real>(call.inputs[2]);
  Real* statistics = reals<Real>(call.outputs[1]);
  const std::int64_t n = last_extent(x), rows = rows_of(x);
  const auto count = static_cast<double>(rows);
  const Sums sums = sum_by_channel<Real>(x, [&](std::int64_t i, std::int64_t) { return values[i]; });
  for (std::int64_t c = 0; c < n; ++c)
    statistics[2 * c] = static_cast<Real>(sums[static_cast<std::size_t>(c)] / count);
  const Sums squares = sum_by_channel<Real>(x, [&](std::int64_t i, std::int64_t c) {
    const Real apart = values[i] - statistics[2 * c];
    return apart * apart;
  });
  for (std::int64_t c = 0; c < n; ++c)
    statistics[2 * c + 1] = static_cast<Real>(
        1 / std::sqrt(squares[static_cast<std::size_t>(c)] / count + call.what.constants.at(0)));
  Real* to = reals<Real>(y);
  for (std::int64_t i = 0; i < rows * n; ++i) {
    const std::int64_t c = i % n;
    to[i] = (values[i] - statistics[2 * c]) * statistics[2 * c + 1] * weight[c] + bias[c];
  }
}

// With xhat = (x - mean) r: dx = weight r (dy - mean(dy) - xhat mean(dy xhat)).
template <class Real>
void run_batch_norm_backward(const KernelCall& call) {
  const Argument &gradient = call.inputs[0], &x = call.inputs[1];
  const Real *dy = reals<Real>(gradient), *values = reals<Real>(x), *weight = reals<Real>(call.inputs[2]),
             *statistics = reals<Real>(call.inputs[3]);
  const std::int64_t n = last_extent(x), rows = rows_of(x);
  const auto xhat = [&](std::int64_t i, std::int64_t c) {
    return (values[i] - statistics[2 * c]) * statistics[2 * c + 1];
  };
  const Sums sums = sum_by_channel<Real>(gradient, [&](std::int64_t i, std::int64_t) { return dy[i]; });
  const Sums products =
      sum_by_channel<Real>(gradient, [&](std::int64_t i, std::int64_t c) { return dy[i] * xhat(i, c); });
  Real* dx = reals<Real>(call.outputs[0]);
  for (std::int64_t i = 0; i < rows * n; ++i) {
    const std::int64_t c = i % n;
    const auto at = static_cast<std::size_t>(c);
    const auto mean = static_cast<Real>(sums[at] / static_cast<double>(rows));
    const auto product = static_cast<Real>(products[at] / static_cast<double>(rows));
    dx[i] = weight[c] * statistics[2 * c + 1] * (dy[i] - mean - xhat(i, c) * product);
  }
  for (std::size_t o = 1; o < 3; ++o) {
    const Sums& sum = o == 1 ? products : sums;
    Real* to = reals<Real>(call.outputs[o]);
    for (std::int64_t c = 0; c < n; ++c)
      to[c] =
          (adds_to(call, call.outputs[o]) ? to[c] : 0) + static_cast<Real>(sum[static_cast<std::size_t>(c)]);
  }
}

template void run_batch_norm<float>(const KernelCall&);
template void run_batch_norm<double>(const KernelCall&);
template void run_batch_norm_backward<float>(const KernelCall&);
template void run_batch_norm_backward<double>(const KernelCall&);

}  // namespace simrun::cpu
