#pragma once

#include <cstddef>
#include <vector>

#include "validation/validated_row.h"

namespace simrun {

// Runs that are one and the same simulated job and were measured more than once: by another table, container
// or laboratory. No prediction that tells these runs apart as little as ours can be right for all of them.
struct RepeatScore {
  std::size_t jobs = 0, runs = 0;
  // Mean of |error| over these runs: of the best single prediction for each job, and of ours. 0 of none.
  double least_mape = 0, mape = 0;
};

// Of the rows whose time is in the score. Two that measured the same to 0.1 % are taken for one run, printed
// twice.
RepeatScore score_repeats(const std::vector<ValidatedRow>& rows);

}  // namespace simrun
