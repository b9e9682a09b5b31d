#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/candidate.h"

namespace simrun {

// The candidates of a job that has no estimates, in for_each_candidate's order.
struct EnumeratedCandidates {
  std::int64_t all = 0;
  // All, or a grid of them: every split of the ranks, but of schedules 1F1B (or the first that is asked for),
  // no selective recompute, microbatches of powers of two, ZeRO-1 and 3, whole experts on a rank; as much of
  // that is left out as brings them down to what is asked for. What `fix` and the lists of `plan` name is
  // never left out for another.
  std::vector<Candidate> chosen;
  bool is_grid() const { return all != static_cast<std::int64_t>(chosen.size()); }
};

// All where they are no more than `most`, else a grid of no more than `most_of_grid`. Throws
// std::invalid_argument where even the coarsest grid has more.
EnumeratedCandidates enumerated_candidates(const Job& job, const PlanConfig& limits, std::size_t most,
                                           std::size_t most_of_grid);

}  // namespace simrun
