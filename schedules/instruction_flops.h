#pragma once

#include "schedules/plan.h"

namespace simrun {

// Matrix FLOPs of one instruction on one rank, by the definition of hardware FLOPs: a multiply-add is 2,
// padding counts, attention counts the full score matrix (2 products forward, 4 backward). 0 for everything
// else. Extents and shares of the work that come from tables count with their means over coordinates and
// microbatches, so with several tables in one product it is the product of the means.
double instruction_flops(const Plan& plan, const Instruction& instruction);
double segment_flops(const Plan& plan, const Segment& segment);

// All ranks, one step.
double hardware_flops(const Plan& plan);

}  // namespace simrun
