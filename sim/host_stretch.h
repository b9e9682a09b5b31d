#pragma once

#include <vector>

#include "schedules/plan.h"
#include "schedules/timeline.h"

namespace simrun {

// What kernels of a pass take by what they take alone where the host issues for `issue_ps` in all: the least,
// at least 1, with which the pass takes as long. Kernels wait for what tensor-, context- and expert-parallel
// ranks exchange while the host goes on; exchanges that run beside kernels take none of its time. `times`: of
// each instruction alone, 0 of what is neither a kernel nor such an exchange.
// O(instructions x log(exchanged buffers)).
double host_stretch(const Plan& plan, const std::vector<Instruction>& instructions,
                    const std::vector<Picoseconds>& times, double issue_ps);

}  // namespace simrun
