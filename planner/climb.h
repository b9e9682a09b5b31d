#pragma once

#include <cstdint>
#include <functional>

#include "planner/search.h"

namespace simrun {

struct Climb {
  unsigned threads = 1;  // the plan is the same for any number
  // Asked before every step; false ends the climb where it is. May be empty.
  std::function<bool()> goes_on = {};
  std::int64_t evaluated = 0;  // counted up
};

// Steps from a plan that fits to the best of its neighbours (planner/candidate_neighbours.h, or one layer of
// a stage given to another), by the objective and the fast engine, as long as that is better, and of no more
// than 240 plans in all. Where it ends elsewhere than it began, that plan was simulated with contention.
RankedCandidate climbed(const PlanBase& base, RankedCandidate from, Climb& climb);

}  // namespace simrun
