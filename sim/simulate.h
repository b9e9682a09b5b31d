#pragma once

#include "schedules/plan.h"
#include "schedules/timeline.h"

namespace simrun {

struct SimulateOptions {
  Detail detail = Detail::totals;
};

// The fast engine: one representative rank per pipeline rank, streams run to block, linear in the executed
// instructions. Kernel times come from sim/kernel_cost.h, communication from sim/collective_cost.h on the
// plan's real placement, memory from sim/memory.h. Throws std::runtime_error naming who waits for whom if the
// plan deadlocks (a linted plan cannot).
Timeline simulate(const Plan& plan, const SimulateOptions& options = {});

}  // namespace simrun
