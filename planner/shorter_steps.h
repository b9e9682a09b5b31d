#pragma once

#include <optional>

#include "planner/evaluate_candidate.h"

namespace simrun {

// Whether the job has so many microbatches that shorter steps tell what its transfers on shared links take: a
// schedule that repeats, whatever passes last.
bool is_long_and_periodic(const Job& job);

// With contention, where the whole step without it is `alone`: from two shorter steps, between which every
// microbatch adds the same. `alone` where links are hardly shared. Nothing where the fast engine's step does
// not grow so, or the schedule cannot be that of a shorter step. REQUIRES: is_long_and_periodic(job).
std::optional<Evaluation> contention_of_shorter_steps(const PlanBase& base, const Job& job,
                                                      const Evaluation& alone);

}  // namespace simrun
