#include <cmath>

#include "backend/cpu_kernels.h"

namespace simrun::cpu {

// Rows are heads of packed q, k, v [batch, sequence, kv_heads, qkv, head_dim]. The gradient turns back.
template <class Real>
void run_rope(const KernelCall& call) {
  const Argument &in = call.inputs[0], &out = call.outputs[0];
  const std::int64_t n = last_extent(in), rows = rows_of(in);
  const std::int64_t qkv = part_named(call, in, "qkv").extent;
  const DimPart& sequence = part_named(call, in, "sequence");
  const std::int64_t heads = part_named(call, in, "kv_heads").extent * qkv;
  const double direction = call.what.function == Function::rope_backward ? -1 : 1;
  const double base = call.what.constants.at(0), share = call.what.constants.at(1);
  const std::int64_t half = static_cast<std::int64_t>(share * static_cast<double>(n)) / 2;
  std::vector<double> frequency;
  for (std::int64_t i = 0; i < half; ++i)
    frequency.push_back(std::pow(base, -static_cast<double>(i) / static_cast<double>(half)));
  for (std::int64_t row = 0; row < rows; ++row) {
    const Real* x = reals<Real>(in) + row * n;
    Real* y = reals<Real>(out) + row * n;
    std::copy_n(x, n, y);
    if (row % qkv == qkv - 1) continue;  // a value
    const auto position = static_cast<double>(sequence.at(row / heads % sequence.extent));
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle = position * frequency[static_cast<std::size_t>(i)];
      const auto c = static_cast<Real>(std::cos(angle)), s = static_cast<Real>(direction * std::sin(angle));
      y[i] = x[i] * c - x[i + half] * s;
      y[i + half] = x[i + half] * c + x[i] * s;
    }
  }
}

template void run_rope<float>(const KernelCall&);
template void run_rope<double>(const KernelCall&);

}  // namespace simrun::cpu
