#pragma once

#include <vector>

#include "schedules/plan.h"

namespace simrun {

// A forward and a backward pass of different microbatches as one run of instructions, so that the collectives
// of each are in flight behind the compute of the other (DeepSeek-V3, arXiv 2412.19437, section 3.2.1; in
// Megatron-LM the combined 1F1B of its MoE overlap). Each list is cut behind its communication instructions
// and the pieces are merged at even distances, the forward's first; the order within each list stays.
//
// The forward's instructions get binding 0, the backward's binding 1. Pure, linear.
std::vector<Instruction> overlap(const std::vector<Instruction>& forward,
                                 const std::vector<Instruction>& backward);

}  // namespace simrun
