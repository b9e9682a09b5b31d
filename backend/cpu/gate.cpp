#include <cmath>

#include "backend/cpu/experts.h"
#include "backend/cpu/kernels.h"

namespace simrun::cpu {

// One gate per row.
template <class Real>
void run_sigmoid_gate(const KernelCall& call) {
  const bool forward = call.what.function == Function::sigmoid_gate;
  const Argument &x = call.inputs[forward ? 0 : 1], &gates = call.inputs[forward ? 1 : 2];
  const std::int64_t n = last_extent(x), rows = rows_of(x);
  // A gradient that is not wanted has no output; the gates' is one number a row.
  Real *of_x = nullptr, *of_gates = nullptr;
  for (const Argument& output : call.outputs)
    (elements(output.part) == rows * n ? of_x : of_gates) = reals<Real>(output);
  for (std::int64_t row = 0; row < rows; ++row) {
    const Real gate = 1 / (1 + std::exp(-reals<Real>(gates)[row]));
    const Real* from = reals<Real>(forward ? x : call.inputs[0]) + row * n;
    for (std::int64_t i = 0; of_x != nullptr && i < n; ++i) of_x[row * n + i] = gate * from[i];
    if (of_gates == nullptr) continue;
    Real product = 0;
    for (std::int64_t i = 0; i < n; ++i) product += from[i] * reals<Real>(x)[row * n + i];
    of_gates[row] = product * gate * (1 - gate);
  }
}

template <class Real>
void run_weigh_rows(const KernelCall& call) {
  const Argument &x = call.inputs[0], &weights = call.inputs[1];
  const std::int64_t n = last_extent(x), rows = rows_of(x);
  for (std::int64_t i = 0; i < rows * n; ++i)
    reals<Real>(call.outputs[0])[i] = reals<Real>(x)[i] * reals<Real>(weights)[i / n];
}

// The second input tells a weight's gradient: what the rows were before (scale_rows), or are weighted.
template <class Real>
void run_weigh_rows_backward(const KernelCall& call) {
  const bool is_weighted = call.what.function == Function::weigh_rows_backward;
  const Argument &gradient = call.inputs[0], &kept = call.inputs[1], &weights = call.inputs[2];
  const std::int64_t n = last_extent(gradient), rows = rows_of(gradient);
  Real *of_x = nullptr, *of_weights = nullptr;
  for (const Argument& output : call.outputs)
    (output.buffer->dims.back().name == gradient.buffer->dims.back().name ? of_x : of_weights) =
        reals<Real>(output);
  for (std::int64_t row = 0; row < rows; ++row) {
    const Real weight = reals<Real>(weights)[row];
    const Real *dy = reals<Real>(gradient) + row * n, *from = reals<Real>(kept) + row * n;
    Real product = 0;
    for (std::int64_t i = 0; i < n; ++i) product += dy[i] * from[i];
    for (std::int64_t i = 0; of_x != nullptr && i < n; ++i) of_x[row * n + i] = dy[i] * weight;
    if (of_weights == nullptr) continue;
    // A weight that underflowed to 0 has left nothing of its row to tell its gradient by.
    const Real left = weight == 0 ? 0 : product / weight;
    of_weights[row] = is_weighted ? left : product;
  }
}

template void run_weigh_rows<float>(const KernelCall&);
template void run_weigh_rows<double>(const KernelCall&);
template void run_weigh_rows_backward<float>(const KernelCall&);
template void run_weigh_rows_backward<double>(const KernelCall&);
template void run_sigmoid_gate<float>(const KernelCall&);
template void run_sigmoid_gate<double>(const KernelCall&);

}  // namespace simrun::cpu
