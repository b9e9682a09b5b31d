#pragma once

#include <cstdint>
#include <optional>

#include "schedules/plan.h"

namespace simrun {

// The operands of a CONV, whichever gradient it computes: the output's side of the convolution, the input's,
// and the weight [channels', kernel height, kernel width, channels].
struct ConvolutionOperands {
  Index output = no_index, input = no_index, weight = no_index;
};
ConvolutionOperands convolution_operands(const Instruction& instruction);

// Of a SCAN or its gradient: the gated channels (or their gradient), what is made from the tokens, and the
// convolution's weight [groups, convolved, taps].
struct ScanOperands {
  Index channels = no_index, packed = no_index, weight = no_index;
};
ScanOperands scan_operands(const Instruction& instruction);

// The products of a dispatch or combine with masks, or of its gradients: `groups` times
// [tokens, places] x [places, hidden], or two of them transposed.
struct MaskProducts {
  std::int64_t groups = 1, tokens = 0, places = 0, hidden = 0;  // tokens and places of a group
};
std::optional<MaskProducts> mask_products(const Plan& plan, const Instruction& instruction);

// Matrix FLOPs of one instruction on one rank, by the definition of hardware FLOPs: a multiply-add is 2,
// padding counts, attention counts the full score matrix (2 products forward, 4 backward). 0 for everything
// else. Extents and shares of the work that come from tables count with their means over coordinates and
// microbatches, so with several tables in one product it is the product of the means.
double instruction_flops(const Plan& plan, const Instruction& instruction);
double segment_flops(const Plan& plan, const Segment& segment);

// All ranks, one step.
double hardware_flops(const Plan& plan);

}  // namespace simrun
