#pragma once

#include "sim/kernel_cost.h"

namespace simrun {

// The kernels of a Mamba-2 layer's convolution, scan and gate as mamba_split_conv1d_scan_combined runs them
// (state-spaces/mamba, mamba_ssm/ops/triton/ssd_combined.py), which Megatron Core calls: the sequence in
// chunks of Q = 128 tokens (MambaMixer's chunk_size); between chunks states of every head are passed on,
// within one a token reads those before it by products (Dao and Gu 2024, arXiv 2405.21060, section 6). Per
// chunk and head of P channels and N elements of the state:
//   states     [P, Q] x [Q, N]      of a chunk by itself
//   C B        [Q, N] x [N, Q]      per group of heads
//   outputs    [Q, Q] x [Q, P], of which the mask leaves half, and [Q, N] x [N, P]
// Backward computes the convolution, states and C B again, and has two products for each: gradients of the
// states, of x (from outputs and from states), of B and C (from states), of C B, of B and C (from C B), and
// one more pass over the outputs' products for the gradient of the decay. Those of a Gated DeltaNet layer:
// sim/delta_rule_cost.h.
KernelWork scan_work(const Plan& plan, const Instruction& instruction);
double scan_seconds(const Plan& plan, const Instruction& instruction);
std::int64_t scan_launches(const Plan& plan, const Instruction& instruction);

}  // namespace simrun
