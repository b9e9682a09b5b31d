#pragma once

#include "schedules/plan.h"

namespace simrun {

// A product D[batch, m, n] (+)= A[batch, m, k] x B[batch, k, n], with its extents on this rank.
struct GemmShape {
  std::int64_t batch = 1, m = 1, n = 1, k = 1;
  Dtype input = Dtype::bf16;   // of A and B: chooses the peak
  Dtype output = Dtype::bf16;  // of D
  bool accumulate = false;     // D is read as well
  // A row of A, B or D begins at an address that is no multiple of the 16 bytes of a tensor core's load.
  bool unaligned = false;
  double rate_share = 1;  // what the framework's kernel reaches of the rate
  bool operator==(const GemmShape&) const = default;
};

// Best sustained FLOP/s of matrix products on inputs of this type: its peak x what products reach of it.
// Throws std::runtime_error if the GPU's file has no peak of the type.
double matmul_flops_per_second(const Gpu& gpu, Dtype dtype);

double gemm_flops(const GemmShape& shape);
// A and B once, D once or, accumulated, twice.
double gemm_bytes(const GemmShape& shape);

// Seconds of a GEMM, without its launch: the best of a list of thread-block tiles and of splits of K, each
// priced as
//   whole waves of ceil(m/tile_m) ceil(n/tile_n) batch splits tiles over the SMs, or the memory's time if
//   that is longer.
// Never below max(flops / sustained rate, bytes / sustained bandwidth). Unaligned products run at a share of
// the rate (gemm_cost.cpp).
double gemm_seconds(const Gpu& gpu, const GemmShape& shape);
// Of a kernel that runs the same product and moves these bytes.
double gemm_seconds(const Gpu& gpu, const GemmShape& shape, double bytes);

// The three kinds of dimensions of a GEMM instruction follow from which of A, B (its first two inputs) and D
// (its output) have them: batch in all three, m in A and D, n in B and D, k in A and B.
GemmShape gemm_shape(const Plan& plan, const Instruction& instruction);

}  // namespace simrun
