#include "backend/cuda/lower.h"
#include "backend/gemm_shape.h"

namespace simrun::cuda {
namespace {

int bytes_of_number(bool is_bf16, std::size_t math) { return is_bf16 ? 2 : static_cast<int>(math); }

Places in_row(std::int64_t count) { return joined_places(0, {count}, {1}); }

// An operand as matrices, copied first where it is not in one piece.
template <class Math>
Factor factor_of(LaunchList<Math>& list, const Argument& argument, const GemmFactor& as, std::int64_t rows,
                 std::int64_t columns) {
  Factor factor{argument.data, list.is_bf16(argument), as.transposed, as.transposed ? rows : columns,
                rows * columns};
  if (as.as_stored) return factor;
  const std::int64_t count = elements(argument.part);
  const int bytes = bytes_of_number(factor.is_bf16, sizeof(Math));
  factor.data = list.template scratch<std::byte>(count * bytes);
  list.add(CopyElement<Math>{count, argument.data, factor.data, bytes, Joining::assign,
                             joined_places(0, as.order.extents, as.order.strides), in_row(count)});
  return factor;
}

template <class Math>
void add_bias(LaunchList<Math>& list, const Argument& out, const Argument& bias) {
  AddElement<Math> kernel{};
  kernel.count = elements(out.part);
  kernel.first = kernel.to = list.reals(out);
  kernel.biases = 1;
  kernel.bias[0] = list.reals(bias);
  kernel.bias_places[0] = broadcast_places(out, bias);
  list.add(kernel);
}

}  // namespace

template <class Math>
void lower_gemm(LaunchList<Math>& list) {
  const KernelCall& call = list.call;
  const Argument& d = call.outputs[0];
  const MatrixProduct shape = gemm_shape(call.inputs[0], call.inputs[1], d);
  const Argument &a = call.inputs[shape.swapped ? 1 : 0], &b = call.inputs[shape.swapped ? 0 : 1];
  const bool adds = cpu::adds_to(call, d);
  Product product;
  product.batch = shape.batch;
  product.m = shape.m;
  product.n = shape.n;
  product.k = shape.k;
  product.a = factor_of(list, a, shape.a, shape.m, shape.k);
  product.b = factor_of(list, b, shape.b, shape.k, shape.n);
  product.d = {d.data, list.is_bf16(d), false, shape.n, shape.m * shape.n};
  product.beta = adds && shape.d_as_stored ? 1 : 0;
  const std::int64_t count = elements(d.part);
  if (shape.d_as_stored) {
    list.add(product);
  } else {
    const int bytes = bytes_of_number(product.d.is_bf16, sizeof(Math));
    product.d.data = list.template scratch<std::byte>(count * bytes);
    list.add(product);
    list.add(CopyElement<Math>{count, product.d.data, d.data, bytes, adds ? Joining::add : Joining::assign,
                               in_row(count),
                               joined_places(0, shape.d_order.extents, shape.d_order.strides)});
  }
  if (call.inputs.size() > 2 && shape.begins_sum) add_bias(list, d, call.inputs[2]);
}

template void lower_gemm(LaunchList<float>&);
template void lower_gemm(LaunchList<double>&);

}  // namespace simrun::cuda
