#pragma once

#include <cstdint>
#include <string>

#include "schedules/plan.h"

namespace simrun {

inline double gib(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

// What --check prints: every number that follows from the job before anything is simulated.
std::string derived_numbers(const Plan& plan);

}  // namespace simrun
