#pragma once

#include <cstdint>

#include "schedules/plan.h"

namespace simrun {

// What PyTorch's operators between the products of unfused attention hold beside the plan's tensors, bytes:
// softmax runs in fp32 and keeps its output for its backward pass (4 bytes per score, in place of the plan's
// half-precision ones where dropout frees these). Nothing where one kernel does all of it.
//   kept   until the probabilities are freed
//   brief  while the instruction runs, besides: forward the scores, and masked ones in fp32 or, under
//          autocast, in half precision; backward the gradients in front of softmax, in fp32, and behind
//          it, likewise or in half precision, less the probabilities, which the product's gradient has
//          freed by then
// megatron/model/fused_softmax.py, forward_torch_softmax.
struct ScoreTensors {
  std::int64_t kept = 0, brief = 0;
};
ScoreTensors score_tensors(const Plan& plan, const Instruction& instruction);

}  // namespace simrun
