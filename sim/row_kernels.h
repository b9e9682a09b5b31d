#pragma once

#include <vector>

#include "schedules/plan.h"

namespace simrun {

// One of the kernels as which a framework runs an instruction that works on rows.
struct RowKernel {
  double bytes = 0;           // to and from memory
  double random_numbers = 0;  // that it draws
  double operations = 0;      // 32-bit integer ones, while bytes move
};

// Seconds of one that only moves bytes, with its launch.
double row_kernel_seconds(const Gpu& gpu, double bytes);

// Of any, with its launch: memory traffic or operations, whichever takes longer, then the numbers that
// it draws.
double row_kernel_seconds(const Gpu& gpu, const RowKernel& kernel);

// The kernels of an instruction whose fused kernel moves `fused_bytes`: one, or where the framework does not
// fuse it PyTorch's operators one behind the other. Bytes per element of b bytes, as those operators read and
// write them:
//   rms_norm        x to fp32, square, mean, x r, back, x weight; backward 11 operators
//   rope            per query and key: x cos, negate, join the halves, x sin, add
//   swiglu          SiLU, product
//   gelu            bias, GELU
//   cross entropy   logits - maximum, exponential, sum, quotient; backward product, cast; of logits in half
//                   precision alone (a compiled loss) one that reads those each way, and none that casts them
//   optimizer       what else its step moves
//   add             bias, dropout with its mask of one byte, residual
//   experts' rows   see permute_kernels(); none where DeepEP's exchange moves them
//   expert biases   see expert_bias_gradient_kernels()
//   weight gradient product in the type of the weight, then added to the main gradient
std::vector<RowKernel> row_kernels(const Plan& plan, const Instruction& instruction, double fused_bytes);

// Further kernels behind a product: biases of packed queries, keys and values and of experts, and a weight
// gradient that is added to the main gradient.
std::vector<RowKernel> kernels_behind_product(const Plan& plan, const Instruction& instruction);

// The product itself writes its own type where a kernel behind it adds to the main gradient.
bool adds_behind_product(const Plan& plan, const Instruction& instruction);

}  // namespace simrun
