#include <algorithm>
#include <numeric>

#include "backend/cpu_kernels.h"
#include "backend/cpu_math.h"
#include "backend/cpu_scratch.h"

// Matrix products by the names of dimensions. Names fall into four groups: batch (in A, B and D), m (A and
// D), n (B and D) and k (A and B). Where an operand has each group in one piece it is a matrix as it stands,
// transposed or not; where not it is copied into that order first.
namespace simrun::cpu {
namespace {

using Names = std::vector<std::uint16_t>;

bool has(const Names& names, std::uint16_t name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Names names_of(const Argument& argument) {
  Names names;
  for (const BufferDim& dim : argument.buffer->dims) names.push_back(dim.name);
  return names;
}

Names joined(const Names& a, const Names& b, const Names& c) {
  Names names = a;
  names.insert(names.end(), b.begin(), b.end());
  names.insert(names.end(), c.begin(), c.end());
  return names;
}

std::int64_t extent_of(const Argument& argument, const Names& group) {
  std::int64_t product = 1;
  for (std::size_t d = 0; d < argument.part.size(); ++d)
    if (has(group, argument.buffer->dims[d].name)) product *= argument.part[d].extent;
  return product;
}

// Strides, in elements, of an argument's dimensions in a given order.
struct Strided {
  std::vector<std::int64_t> extents, strides;
};
Strided in_order(const Argument& argument, const Names& order) {
  const Names names = names_of(argument);
  Strided result;
  for (const std::uint16_t name : order) {
    std::int64_t stride = 1;
    std::size_t d = names.size();
    while (names[--d] != name) stride *= argument.part[d].extent;
    result.extents.push_back(argument.part[d].extent);
    result.strides.push_back(stride);
  }
  return result;
}

// Calls visit(place in the order, place in the argument).
template <class Visit>
void for_each(const Strided& strided, Visit visit) {
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

struct Groups {
  Names batch, rows, columns;
};

template <class Real>
Matrices<Real> matrices(const Argument& argument, const Groups& groups) {
  const Names names = names_of(argument);
  Matrices<Real> result;
  result.rows = extent_of(argument, groups.rows);
  result.columns = extent_of(argument, groups.columns);
  result.data = reals<Real>(argument);
  if (names == joined(groups.batch, groups.rows, groups.columns)) return result;
  result.transposed = names == joined(groups.batch, groups.columns, groups.rows);
  if (result.transposed) return result;
  result.packed = Scratch<Real>(elements(argument.part));
  const Real* from = result.data;
  for_each(in_order(argument, joined(groups.batch, groups.rows, groups.columns)),
           [&](std::int64_t to, std::int64_t place) { result.packed[to] = from[place]; });
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

// Of summands over several ranks, the one that has the first of the sum.
bool begins_sum(const Argument& a, const Names& summed) {
  for (std::size_t d = 0; d < a.part.size(); ++d)
    if (has(summed, a.buffer->dims[d].name) && a.part[d].first > 0) return false;
  return true;
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
  const Argument *a = &call.inputs[0], *b = &call.inputs[1];
  const Argument& d = call.outputs[0];
  const Names of_d = names_of(d);
  const auto split = [&](const Names& of_a, const Names& of_b) {
    Groups groups;  // batch, m, n in D's order
    for (const std::uint16_t name : of_d)
      (has(of_a, name) && has(of_b, name) ? groups.batch
       : has(of_a, name)                  ? groups.rows
                                          : groups.columns)
          .push_back(name);
    return groups;
  };
  Groups groups = split(names_of(*a), names_of(*b));
  // D as [batch, n, m] is the product the other way round.
  if (of_d != joined(groups.batch, groups.rows, groups.columns) &&
      of_d == joined(groups.batch, groups.columns, groups.rows)) {
    std::swap(a, b);
    std::swap(groups.rows, groups.columns);
  }
  Names summed;
  for (const std::uint16_t name : names_of(*a))
    if (has(names_of(*b), name) && !has(of_d, name)) summed.push_back(name);
  const Matrices<Real> left = matrices<Real>(*a, {groups.batch, groups.rows, summed});
  const Matrices<Real> right = matrices<Real>(*b, {groups.batch, summed, groups.columns});
  const std::int64_t batch = extent_of(d, groups.batch);
  const bool adds = adds_to(call, d);
  const Names order = joined(groups.batch, groups.rows, groups.columns);
  if (of_d == order) {
    multiply(left, right, reals<Real>(d), batch, adds);
  } else {
    const Scratch<Real> product(elements(d.part));
    multiply(left, right, product.data(), batch, false);
    Real* to = reals<Real>(d);
    for_each(in_order(d, order), [&](std::int64_t from, std::int64_t place) {
      const Real value = product[from];
      to[place] = adds ? to[place] + value : value;
    });
  }
  if (call.inputs.size() > 2 && begins_sum(*a, summed)) add_bias<Real>(d, call.inputs[2]);
  if (call.what.constants.size() == 2) scale_and_add<Real>(call);
}

template void run_gemm<float>(const KernelCall&);
template void run_gemm<double>(const KernelCall&);

}  // namespace simrun::cpu
