#pragma once

#include <string_view>

#include "configs/plan_config.h"

namespace simrun {

// For a mode of --plan that keeps to plan.max_memory and makes the step short: throws std::invalid_argument
// where the job asks for more, rather than leave it out. `what`: a clause on the mode, why it has no other
// limits.
void require_only_memory_limit(const PlanConfig& plan, std::string_view mode, std::string_view what);

}  // namespace simrun
