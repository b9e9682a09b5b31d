#pragma once

#include "schedules/instruction_costs.h"
#include "schedules/plan.h"
#include "schedules/timeline.h"

namespace simrun {

// One steady step of a plan whose every rank is a thread, on `cores` cores: ranks issue their instructions in
// order and one at a time, each takes its measured cost of a core's time (0 where it has none), a send goes
// on at once, a receive waits for its message and any other communication for its members. A rank keeps its
// core until it waits; waiting ranks get a core in the order in which they became ready. On as many cores as
// ranks this is the plan's critical path without overlap; on fewer it is what the ranks make of the cores.
//
// Throws std::runtime_error if the ranks wait for one another.
Picoseconds replay_on_cores(const Plan& plan, const InstructionCosts& costs, int cores);

}  // namespace simrun
