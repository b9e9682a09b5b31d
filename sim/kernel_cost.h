#pragma once

#include "schedules/plan.h"
#include "schedules/timeline.h"
#include "sim/gemm_cost.h"

namespace simrun {

// What one kernel does: matrix FLOPs as the device executes them and bytes to and from its memory.
struct KernelWork {
  double flops = 0;
  double bytes = 0;
  bool operator==(const KernelWork&) const = default;
};

// Extents of an attention instruction, read from whichever of its buffers is the packed qkv [batch, sequence,
// kv_heads, qkv, head_dim] (qkv = group + 2), or else from its context [batch, sequence, kv_heads, group,
// head_dim]. Latent attention: from its queries [batch, sequence, kv_heads, qk_dim] and a buffer with v_dim.
// Keys that are an operand of their own say how many there are.
struct AttentionShape {
  std::int64_t batch = 1, heads = 1, sequence = 1, key_sequence = 1, head_dim = 1;
  Dtype dtype = Dtype::bf16;
  std::int64_t value_dim = 0;  // of a head's values; 0: head_dim
  std::int64_t values() const { return value_dim > 0 ? value_dim : head_dim; }
  bool operator==(const AttentionShape&) const = default;
};
AttentionShape attention_shape(const Plan& plan, const Instruction& instruction);

// Work of an instruction that is not a communication. Flash attention counts only what its mask leaves;
// unfused attention is several kernels, here summed.
KernelWork kernel_work(const Plan& plan, const Instruction& instruction);

// Time of a compute instruction on plan.cluster.gpu: max(compute, memory) + launch, and no less than the
// framework takes to issue it. 0 for FREE and INIT.
Picoseconds kernel_time(const Plan& plan, const Instruction& instruction);

// Kernels that a framework's host issues for a compute instruction. 0 for FREE and INIT.
std::int64_t kernel_launches(const Plan& plan, const Instruction& instruction);

// Throws std::range_error for what is not a time, or so long that sums of it could leave 64-bit picoseconds
// (2^63 ps = 106 days).
constexpr double longest_instruction_s = 1e5;
Picoseconds to_picoseconds(double seconds);

}  // namespace simrun
