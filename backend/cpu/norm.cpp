#include <vector>

#include "backend/cpu/kernels.h"
#include "backend/cpu/math.h"

namespace simrun::cpu {
namespace {

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
  const std::int64_t weights = of_heads ? 1 : rows_of(call.inputs[1]);
  for (std::int64_t at = 0; at < rows; ++at) {
    const std::int64_t weight = of_heads ? weight_row(at, qkv) : at % weights;
    typename Math<Real>::NormRow row{reals<Real>(x) + at * n,
                                     reals<Real>(call.inputs[1]) + std::max<std::int64_t>(weight, 0) * n, n,
                                     centred};
    Real* y = reals<Real>(call.outputs[0]) + at * n;
    Real* statistics = reals<Real>(call.outputs[1]) + at * kept;
    if (weight < 0) {
      std::copy_n(row.x, n, y);
      statistics[0] = 1;
      continue;
    }
    math<Real>().norm(row, bias, call.what.constants.at(0), y);
    if (centred) statistics[0] = row.mean;
    statistics[centred ? 1 : 0] = row.r;
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
  const std::int64_t weights = of_heads ? 1 : rows_of(call.inputs[2]);
  NormGradients<Real> to(call, x);
  for (std::int64_t at = 0; at < rows; ++at) {
    const Real* dy = reals<Real>(call.inputs[0]) + at * n;
    Real* dx = to.of_row(at, n);
    const std::int64_t weight = of_heads ? weight_row(at, qkv) : at % weights;
    if (weight < 0) {
      std::copy_n(dy, n, dx);
      continue;
    }
    const Real* statistics = reals<Real>(call.inputs[3]) + at * kept;
    const typename Math<Real>::NormRow row{reals<Real>(x) + at * n,
                                           reals<Real>(call.inputs[2]) + weight * n,
                                           n,
                                           centred,
                                           centred ? statistics[0] : 0,
                                           statistics[centred ? 1 : 0]};
    math<Real>().norm_backward(row, {dy, dx, to.weight + weight * n, to.bias});
  }
}

template void run_norm<float>(const KernelCall&);
template void run_norm<double>(const KernelCall&);
template void run_norm_backward<float>(const KernelCall&);
template void run_norm_backward<double>(const KernelCall&);

}  // namespace simrun::cpu
