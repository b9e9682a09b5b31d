#pragma once

#include <cstddef>
#include <cstdint>

#include "planner/estimate_all.h"

namespace simrun {

// What a search begins with: the most promising candidates by their estimates, at most so many; where none
// fits, what comes nearest.
EstimatedShare estimated_start(const PlanBase& base, std::size_t most, const PlanSearchOptions& options);

// Without estimates: in their own order, all as long as there are few.
EstimatedShare enumerated_start(const PlanBase& base, std::size_t most);

std::int64_t count_candidates(const Job& job, const PlanConfig& limits);

}  // namespace simrun
