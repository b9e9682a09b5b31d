#pragma once

#include <string>

#include "schedules/plan.h"

namespace simrun {

// What --check prints: every number that follows from the job before anything is simulated.
std::string derived_numbers(const Plan& plan);

}  // namespace simrun
