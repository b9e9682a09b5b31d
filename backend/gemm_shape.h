#pragma once

#include <cstdint>
#include <vector>

#include "backend/operations.h"

// A GEMM by the names of dimensions as matrix products. Names fall into four groups: batch (in A, B and D), m
// (A and D), n (B and D) and k (A and B). Where an operand has each group in one piece it is a batch of
// matrices as it stands, transposed or not; where not, it is copied into that order first.
namespace simrun {

// Dimensions of a tensor in another order than it is stored in: extents, and strides in elements.
struct ReorderedDims {
  std::vector<std::int64_t> extents, strides;
};

struct GemmFactor {
  bool transposed = false;  // each matrix is stored columns x rows
  bool as_stored = true;    // else it is copied to `order`: batch, rows, columns
  ReorderedDims order;
};

// D[i] = A[i] B[i] for i < batch, A[i] m x k, B[i] k x n, all row-major and one behind the other.
struct MatrixProduct {
  bool swapped = false;  // A is the second input
  std::int64_t batch = 1, m = 1, n = 1, k = 1;
  GemmFactor a, b;
  bool begins_sum = true;   // of summands over several ranks this one has the first: the one that adds a bias
  bool d_as_stored = true;  // else the product is copied to D from `d_order`: batch, m, n
  ReorderedDims d_order;
};

// REQUIRES: every name is once in an operand, and in two of the three at least.
MatrixProduct gemm_shape(const Argument& a, const Argument& b, const Argument& d);

}  // namespace simrun
