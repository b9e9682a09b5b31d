#pragma once

#include <vector>

#include "planner/search.h"

namespace simrun {

// From the best of each split of the ranks that comes to no more than `most_goal` (of what does not fit: from
// those that come nearest): the same under other schedules (planner/other_schedules.h), the best splits
// first; so many that their steps, which are simulated, are no more passes than a search has time for.
std::vector<Candidate> other_schedules_of(const PlanBase& base, const std::vector<RankedCandidate>& simulated,
                                          double most_goal);

}  // namespace simrun
