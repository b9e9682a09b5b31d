#pragma once

#include "schedules/held_memory.h"
#include "schedules/plan.h"

namespace simrun {

// What one GPU holds while it runs the program under the plan's framework, from the plan's bytes to the
// device's. Requires Plan::framework to say an allocator.
HeldMemory held_memory(const Plan& plan, const Program& program, std::int64_t local_gpu);

// Bytes that the program's own tensors may take at their peak, as summarize() has it: those of the GPU less
// the driver's and what the framework holds beside them, on the rank's first GPU; where no framework is named
// less the cluster's reserve.
std::int64_t room_for_plan(const Plan& plan, const Program& program, std::int64_t local_gpu = 0);

}  // namespace simrun
