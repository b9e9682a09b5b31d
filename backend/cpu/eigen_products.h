#pragma once

#include <Eigen/Core>
#include <utility>

#include "backend/cpu/math.h"

// Products of Eigen's row-major matrices by the loops of backend/cpu/math.h: their sums are cut alike on
// every machine, and Eigen's own product would be compiled once more in every file that writes one.
namespace simrun::cpu {

template <class Real>
struct Factor {
  ProductOperand<Real> operand;
  Eigen::Index rows = 0, columns = 0;
};

template <class Matrix>
Factor<typename Matrix::Scalar> as_stored(const Matrix& m) {
  static_assert(Matrix::IsRowMajor);
  return {{m.data(), m.outerStride(), false}, m.rows(), m.cols()};
}
template <class Matrix>
Factor<typename Matrix::Scalar> transposed(const Matrix& m) {
  static_assert(Matrix::IsRowMajor);
  return {{m.data(), m.outerStride(), true}, m.cols(), m.rows()};
}

template <class Real>
Product<Real> product_of(const Factor<Real>& left, const Factor<Real>& right) {
  eigen_assert(left.columns == right.rows);
  return {.rows = left.rows,
          .columns = right.columns,
          .depth = left.columns,
          .left = left.operand,
          .right = right.operand};
}

// out (+)= left right; `out` has the product's sizes, and shares no memory with either.
template <class Out, class Real>
void run_product(Product<Real> product, Out& out) {
  eigen_assert(out.rows() == product.rows && out.cols() == product.columns);
  product.out = out.data();
  product.out_stride = out.outerStride();
  math<Real>().multiply(product);
}
template <class Out, class Real>
void multiply(const Factor<Real>& left, const Factor<Real>& right, Out&& out) {
  run_product(product_of(left, right), out);
}
template <class Out, class Real>
void multiply_add(const Factor<Real>& left, const Factor<Real>& right, Out&& out) {
  Product<Real> product = product_of(left, right);
  product.adds = true;
  run_product(std::move(product), out);
}

// factor left right.
template <class Real>
Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> multiplied(const Factor<Real>& left,
                                                                                const Factor<Real>& right,
                                                                                Real factor = 1) {
  Product<Real> product = product_of(left, right);
  product.factor = factor;
  Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> out(left.rows, right.columns);
  run_product(std::move(product), out);
  return out;
}

}  // namespace simrun::cpu
