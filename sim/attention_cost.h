#pragma once

#include "sim/kernel_cost.h"

namespace simrun {

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

// What stands between the products of unfused attention of that shape: `megatron` is resolved.
SoftmaxKernel softmax_kernel(const Plan& plan, const Instruction& instruction, const AttentionShape& shape);

// FLOPs and bytes that an ATTENTION or ATTENTION_BACKWARD executes.
//   flash    forward 4 b heads s s d FLOPs, backward 2.5 times that (five products for two), of either
//            the share that the causal mask and its window leave; bytes: its buffers once
//   unfused  forward two, backward four products of the full s x s matrix; bytes: the products' operands and
//   the score kernels
KernelWork attention_work(const Plan& plan, const Instruction& instruction);

// Kernels as which it runs.
std::int64_t attention_launches(const Plan& plan, const Instruction& instruction);

// Seconds of the same, launches included.
double attention_seconds(const Plan& plan, const Instruction& instruction);

}  // namespace simrun
