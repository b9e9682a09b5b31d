#pragma once

#include "schedules/op.h"
#include "schedules/plan.h"

namespace simrun {

// Compute passes as the plan's programs hold them.
Schedule schedule_of(const Plan& plan);

}  // namespace simrun
