#pragma once

#include <algorithm>

#include "schedules/plan.h"

namespace simrun {

// The instruction of a segment that takes what the framework has the host do once a step
// (framework.kernels.host_step), beyond its own time: the first update of the optimizer, which lies behind
// all passes. no_index where the segment updates nothing or the host does nothing.
inline Index host_step_instruction(const Plan& plan, const Segment& segment) {
  if (plan.framework.kernels.host_step_s <= 0 || segment.kind != PassKind::step) return no_index;
  const auto found = std::ranges::find(segment.instructions, Opcode::optimizer, &Instruction::opcode);
  return found == segment.instructions.end() ? no_index
                                             : static_cast<Index>(found - segment.instructions.begin());
}

}  // namespace simrun
