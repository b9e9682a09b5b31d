#pragma once

#include "sim/kernel_cost.h"

namespace simrun {

// The time of a kernel that only moves bytes.
double row_kernel_seconds(const Gpu& gpu, double bytes);  // with its launch

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
