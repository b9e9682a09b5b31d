#pragma once

#include <cstdint>

#include "planner/search.h"

namespace simrun {

// Steps from a plan that fits to the best of its neighbours (planner/candidate_neighbours.h, or one layer of
// a stage given to another), by the objective and the fast engine, as long as that is better and no more than
// so many were simulated. The plan where it ends was simulated with contention; `evaluated` counts them all.
// The same for any number of threads.
RankedCandidate climbed(const PlanBase& base, RankedCandidate from, unsigned threads,
                        std::int64_t& evaluated);

}  // namespace simrun
