#pragma once

#include <cstdint>

#include "schedules/plan.h"
#include "schedules/timeline.h"

namespace simrun {

// Of all programs, one step.
std::int64_t instruction_instances(const Plan& plan);

// What pages and traces show: above 400,000 instruction instances passes only, so that they stay small enough
// to open.
Detail page_detail(const Plan& plan);

}  // namespace simrun
