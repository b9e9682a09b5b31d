#pragma once

#include "configs/job.h"
#include "schedules/plan.h"

namespace simrun {

// The plan that a job means. Where its schedule uses times, it is compiled once to price the passes and again
// with a schedule for these times; `auto` without a memory limit keeps to what fits the GPU beside weights,
// gradients and optimizer. Throws what compile() throws.
Plan plan_job(const Job& job);

// Throws std::invalid_argument, which begins with the key of the imperfection, if the cluster's links cannot
// be as its imperfections say, or leave no way between GPUs that talk to each other.
void require_links(const Plan& plan);

}  // namespace simrun
