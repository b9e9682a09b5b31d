#include <functional>
#include <numeric>

#include "backend/cpu/kernels.h"
#include "backend/cpu/math.h"
#include "backend/cpu/scratch.h"
#include "backend/gemm_shape.h"

// Matrix products by the names of dimensions, as backend/gemm_shape.h divides them.
namespace simrun::cpu {
namespace {

// Calls visit(place in the order, place in the argument).
template <class Visit>
void for_each(const ReorderedDims& strided, Visit visit) {
  const std::int64_t count =
      std::accumulate(strided.extents.begin(), strided.extents.end(), std::int64_t{1}, std::multiplies<>());
  std::vector<std::int64_t> at(strided.extents.size(), 0);
  std::int64_t place = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    visit(i, place);
    for (std::size_t d = at.size(); d-- > 0;) {
      place += strided.strides[d];
      if (++at[d] < strided.extents[d]) break;
      place -= strided.strides[d] * strided.extents[d];
      at[d] = 0;
    }
  }
}

// An operand as a batch of matrices rows x columns.
template <class Real>
struct Matrices {
  Scratch<Real> packed;  // if it had to be copied
  const Real* data = nullptr;
  std::int64_t rows = 1, columns = 1;
  bool transposed = false;  // stored columns x rows
};

template <class Real>
Matrices<Real> matrices(const Argument& argument, const GemmFactor& as, std::int64_t rows,
                        std::int64_t columns) {
  Matrices<Real> result;
  result.rows = rows;
  result.columns = columns;
  result.transposed = as.transposed;
  result.data = reals<Real>(argument);
  if (as.as_stored) return result;
  result.packed = Scratch<Real>(elements(argument.part));
  const Real* from = result.data;
  for_each(as.order, [&](std::int64_t to, std::int64_t place) { result.packed[to] = from[place]; });
  result.data = result.packed.data();
  return result;
}

// D[i] (+)= A[i] B[i].
template <class Real>
void multiply(const Matrices<Real>& a, const Matrices<Real>& b, Real* d, std::int64_t batch, bool adds) {
  Product<Real> product{.rows = a.rows, .columns = b.columns, .depth = a.columns};
  product.out_stride = b.columns;
  product.adds = adds;
  for (std::int64_t i = 0; i < batch; ++i) {
    product.left = {a.data + i * a.rows * a.columns, a.transposed ? a.rows : a.columns, a.transposed};
    product.right = {b.data + i * b.rows * b.columns, b.transposed ? b.rows : b.columns, b.transposed};
    product.out = d + i * a.rows * b.columns;
    math<Real>().multiply(product);
  }
}

template <class Real>
void add_bias(const Argument& out, const Argument& bias) {
  const BroadcastIndex index(out, bias);
  const Real* values = reals<Real>(bias);
  Real* to = reals<Real>(out);
  const std::int64_t count = elements(out.part), row = index.row();
  for (std::int64_t i = 0; row > 0 && i < count; i += row) math<Real>().add(to + i, values, row);
  for (std::int64_t i = 0; row == 0 && i < count; ++i) to[i] += values[index(i)];
}

// D = alpha A B + beta B
template <class Real>
void scale_and_add(const KernelCall& call) {
  const auto alpha = static_cast<Real>(call.what.constants[0]),
             beta = static_cast<Real>(call.what.constants[1]);
  const Real* b = reals<Real>(call.inputs[1]);
  Real* d = reals<Real>(call.outputs[0]);
  const std::int64_t count = elements(call.outputs[0].part);
  for (std::int64_t i = 0; i < count; ++i) d[i] = alpha * d[i] + beta * b[i];
}

}  // namespace

template <class Real>
void run_gemm(const KernelCall& call) {
  if (call.what.constants.size() == 1) return run_recurrent_weight_gradient<Real>(call);
  const Argument& d = call.outputs[0];
  const MatrixProduct shape = gemm_shape(call.inputs[0], call.inputs[1], d);
  const Argument &a = call.inputs[shape.swapped ? 1 : 0], &b = call.inputs[shape.swapped ? 0 : 1];
  const Matrices<Real> left = matrices<Real>(a, shape.a, shape.m, shape.k);
  const Matrices<Real> right = matrices<Real>(b, shape.b, shape.k, shape.n);
  const bool adds = adds_to(call, d);
  if (shape.d_as_stored) {
    multiply(left, right, reals<Real>(d), shape.batch, adds);
  } else {
    const Scratch<Real> product(elements(d.part));
    multiply(left, right, product.data(), shape.batch, false);
    Real* to = reals<Real>(d);
    for_each(shape.d_order, [&](std::int64_t from, std::int64_t place) {
      const Real value = product[from];
      to[place] = adds ? to[place] + value : value;
    });
  }
  if (call.inputs.size() > 2 && shape.begins_sum) add_bias<Real>(d, call.inputs[2]);
  if (call.what.constants.size() == 2) scale_and_add<Real>(call);
}

template void run_gemm<float>(const KernelCall&);
template void run_gemm<double>(const KernelCall&);

}  // namespace simrun::cpu
