#pragma once

#include <vector>

#include "schedules/plan.h"
#include "schedules/timeline.h"

namespace simrun {

// What kernels that a framework issues one behind the other take by what they take alone; at least 1.
// `compute`: all of them alone. `beside`: the share of that time in which data-parallel ranks exchange beside
// them.
//
// The host runs ahead of the device; where it takes longer in all, the device waits for every kernel in
// proportion. What slows the framework's passes anyway hides the host's time.
double compute_stretch(const Plan& plan, const std::vector<Instruction>& instructions, Picoseconds compute,
                       double beside);

Picoseconds stretched(Picoseconds time, double by);

}  // namespace simrun
