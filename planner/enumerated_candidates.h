#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/candidate.h"

namespace simrun {

// The candidates of a job that has no estimates, in for_each_candidate's order.
struct EnumeratedCandidates {
  std::int64_t all = 0;
  // All, or a grid of them. From what is left out first: all schedules but the first that a candidate may
  // have (1F1B, unless something else is asked for), selective recompute where full is allowed, microbatches
  // that are no powers of two, ZeRO stages but the job's, 1 and 3, experts that are split, microbatches and
  // numbers of expert-parallel ranks that are no powers of four but the most, microbatches of several
  // sequences, fewer expert-parallel ranks than the most; and at last all but every n-th of these.
  std::vector<Candidate> chosen;
  bool is_grid() const { return all != static_cast<std::int64_t>(chosen.size()); }
};

// All where they are no more than `most`, else a grid of no more than `most_of_grid`. O(candidates) time,
// memory for what is chosen.
EnumeratedCandidates enumerated_candidates(const Job& job, const PlanConfig& limits, std::size_t most,
                                           std::size_t most_of_grid);

}  // namespace simrun
