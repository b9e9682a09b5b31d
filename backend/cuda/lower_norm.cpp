#include "backend/cuda/lower.h"

namespace simrun::cuda {
namespace {

constexpr std::int64_t rows_of_chunk = 64;

NormRows norm_rows(const KernelCall& call, const Argument& x, const Argument& kept) {
  NormRows rows;
  rows.n = cpu::last_extent(x);
  if (call.what.function == Function::qk_norm) rows.qkv = cpu::part_named(call, x, "qkv").extent;
  rows.centred = call.what.function == Function::layer_norm;
  rows.statistics = static_cast<int>(cpu::last_extent(kept));
  return rows;
}

}  // namespace

template <class Math>
void lower_norm(LaunchList<Math>& list) {
  const KernelCall& call = list.call;
  const Argument& x = call.inputs[0];
  NormRow<Math> kernel{};
  kernel.count = cpu::rows_of(x);
  kernel.rows = norm_rows(call, x, call.outputs[1]);
  kernel.x = list.input(0);
  kernel.weight = list.input(1);
  kernel.bias = list.optional_input(2);
  kernel.y = list.output(0);
  kernel.kept = list.output(1);
  kernel.epsilon = static_cast<Math>(call.what.constants.at(0));
  list.add(kernel);
}

// Gradients of weights in two steps: sums of chunks of rows, then over chunks, both in order.
template <class Math>
void lower_norm_backward(LaunchList<Math>& list) {
  const KernelCall& call = list.call;
  const Argument& x = call.inputs[1];
  const NormRows rows = norm_rows(call, x, call.inputs[3]);
  const std::int64_t count = cpu::rows_of(x), chunks = (count + rows_of_chunk - 1) / rows_of_chunk;
  list.add(NormBackwardRow<Math>{count, 0, rows, list.input(0), list.input(1), list.input(2), list.input(3),
                                 list.output(0)});
  if (call.outputs.size() < 2) return;
  const int weights = rows.qkv == 0 ? 1 : 2;
  const bool has_bias = call.outputs.size() > 2;
  const std::int64_t planes = weights + (has_bias ? 1 : 0), stride = planes * rows.n;
  Math* const parts = list.template scratch<Math>(chunks * stride);
  list.add(NormWeightElement<Math>{chunks * stride, rows, count, rows_of_chunk, weights, has_bias,
                                   list.input(0), list.input(1), list.input(3), parts});
  list.add(ColumnSumElement<Math>{weights * rows.n, parts, chunks, stride, list.output(1),
                                  cpu::adds_to(call, call.outputs[1])});
  if (has_bias)
    list.add(ColumnSumElement<Math>{rows.n, parts + weights * rows.n, chunks, stride, list.output(2),
                                    cpu::adds_to(call, call.outputs[2])});
}

template void lower_norm(LaunchList<float>&);
template void lower_norm(LaunchList<double>&);
template void lower_norm_backward(LaunchList<float>&);
template void lower_norm_backward(LaunchList<double>&);

}  // namespace simrun::cuda
