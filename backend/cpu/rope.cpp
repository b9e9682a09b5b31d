#include <cmath>

#include "backend/cpu/kernels.h"
#include "backend/rotation.h"

namespace simrun::cpu {

// Rows are heads of packed q, k, v [batch, sequence, kv_heads, qkv, head_dim]. The gradient turns back.
template <class Real>
void run_rope(const KernelCall& call) {
  const Argument &in = call.inputs[0], &out = call.outputs[0];
  if (position_of(call, in, "qkv") < 0) return run_latent_rope<Real>(call);
  const std::int64_t n = last_extent(in), rows = rows_of(in);
  const std::int64_t qkv = part_named(call, in, "qkv").extent;
  const DimPart& sequence = part_named(call, in, "sequence");
  const std::int64_t heads = part_named(call, in, "kv_heads").extent * qkv;
  const double direction = call.what.function == Function::rope_backward ? -1 : 1;
  const Rotation rotation(call.what.constants.at(0), turned_elements(call.what.constants.at(1), n));
  for (std::int64_t row = 0; row < rows; ++row) {
    const Real* x = reals<Real>(in) + row * n;
    Real* y = reals<Real>(out) + row * n;
    std::copy_n(x, n, y);
    if (row % qkv == qkv - 1) continue;  // a value
    const auto position = static_cast<double>(sequence.at(row / heads % sequence.extent));
    rotation.turn(x, y, direction * position);
  }
}

// Of the same rows, those that are queries'.
template <class Real>
void run_scale_queries(const KernelCall& call) {
  const Argument &in = call.inputs[0], &out = call.outputs[0];
  const std::int64_t n = last_extent(in), rows = rows_of(in);
  const std::int64_t qkv = part_named(call, in, "qkv").extent;
  const DimPart& sequence = part_named(call, in, "sequence");
  const std::int64_t heads = part_named(call, in, "kv_heads").extent * qkv;
  const double factor = call.what.constants.at(0), step = call.what.constants.at(1);
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto position = static_cast<double>(sequence.at(row / heads % sequence.extent));
    const double scale = row % qkv < qkv - 2 ? 1 + factor * std::log1p(std::floor((position + 1) / step)) : 1;
    for (std::int64_t i = row * n; i < (row + 1) * n; ++i)
      reals<Real>(out)[i] = reals<Real>(in)[i] * static_cast<Real>(scale);
  }
}

template void run_scale_queries<float>(const KernelCall&);
template void run_scale_queries<double>(const KernelCall&);
template void run_rope<float>(const KernelCall&);
template void run_rope<double>(const KernelCall&);

}  // namespace simrun::cpu
