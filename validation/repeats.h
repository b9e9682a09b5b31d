#pragma once

#include <cstddef>
#include <vector>

#include "validation/validated_row.h"

namespace simrun {

// Runs that are one and the same simulated job, measured more than once: by another table, container or
// laboratory. No prediction that sees no more of them than we do can be right for all.
struct RepeatScore {
  std::size_t jobs = 0, runs = 0;
  // Mean of |error| over these runs: of the best single prediction for each job, and of ours.
  double least_mape = 0, mape = 0;
};

// Of the rows whose time is in the score. What is printed twice, to 0.1 % the same, is one measurement.
RepeatScore score_repeats(const std::vector<ValidatedRow>& rows);

}  // namespace simrun
