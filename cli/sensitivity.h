#pragma once

#include <vector>

#include "schedules/plan.h"
#include "schedules/timeline.h"
#include "visualizer/sensitivity_table.h"

namespace simrun {

// How the step of `plan` answers to each number of its cluster: bandwidth and latency of the links that it
// has, matrix and vector FLOP/s, memory bandwidth, kernel launch. The plan itself stays, so each number costs
// three simulations: 1 % more, 1 % less, 10 % better; all by the engine that gave `timeline`. Numbers that
// are 0 are left out.
//
// Step times are homogeneous: all rates times k and all times over k give a step over k. So the elasticities
// of the rates less those of the times (switches' latency included) sum to -1, up to the differences' error
// and the times of a framework's host, which are no numbers of a cluster.
std::vector<Sensitivity> sensitivities(const Plan& plan, const Timeline& timeline);

}  // namespace simrun
