#pragma once

#include "schedules/held_memory.h"
#include "schedules/plan.h"

namespace simrun {

// What one GPU holds while it runs the program under the plan's framework, from the plan's bytes to the
// device's. Requires Plan::framework to say an allocator.
HeldMemory held_memory(const Plan& plan, const Program& program, std::int64_t local_gpu);

}  // namespace simrun
