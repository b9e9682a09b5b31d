#pragma once

#include <vector>

#include "schedules/plan.h"
#include "sim/gemm_cost.h"

namespace simrun {

// One kernel of a scan: products, of which there may be none, and bytes. `steps` times one behind the other,
// each of which takes at least step_s.
struct ScanKernel {
  std::vector<GemmShape> products;
  double bytes = 0;
  std::int64_t steps = 1;
  double step_s = 0;
};

// The kernels of a Gated DeltaNet layer's convolution, norms and gated delta rule, or of their gradients, as
// Megatron Core (gated_delta_net.py) and Hugging Face call causal_conv1d and flash-linear-attention
// (fla/ops/gated_delta_rule/chunk.py): the sequence in chunks of C = 64 tokens. Per chunk and value head of
// keys K and values V wide, Yang et al. 2024, arXiv 2412.06464, section 3.3:
//   K K^T     [C, K] x [K, C]; its inverse A with the betas and decays
//   W, U      A [C, C] x [C, K], A x [C, V]
//   states    one chunk after the other: W [C, K] x [K, V], K^T [K, C] x [C, V]; so only the heads, and a
//             state's tiles, run beside each other
//   outputs   Q [C, K] x [K, V], Q K^T, [C, C] x [C, V]
// A chunk is one block of the kernels: what lies above the diagonal of [C, C] is multiplied too. Before them
// q and k are copied for every value head of a key head and normed. Backward computes W, U and the states
// again; their gradients again go chunk by chunk.
std::vector<ScanKernel> delta_rule_kernels(const Plan& plan, const Instruction& instruction);

}  // namespace simrun
