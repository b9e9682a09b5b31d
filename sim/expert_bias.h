#pragma once

#include <vector>

#include "schedules/plan.h"
#include "sim/row_kernels.h"

namespace simrun {

// The kernels that add the biases of a rank's experts behind their product, as PyTorch's operators expert by
// expert: out = cat(rows of an expert + its bias). The second product's bias is weighted by the probability
// of each row, in fp32 where DeepEP exchanged it (it takes no other), else in the rows' type (Megatron-LM,
// megatron/core/transformer/moe/experts.py, TEGroupedMLP._apply_bias; NeMo Automodel,
// components/moe/experts.py, _apply_bias). Empty: the product's epilogue does it.
std::vector<RowKernel> expert_bias_kernels(const Plan& plan, const Instruction& product);

// Those of their gradients, which `sum`, the sum of an expert's rows, is one of. Empty: one kernel does it.
std::vector<RowKernel> expert_bias_gradient_kernels(const Plan& plan, const Instruction& sum);

}  // namespace simrun
