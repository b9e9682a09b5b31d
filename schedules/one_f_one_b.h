#pragma once

#include "schedules/op.h"

namespace simrun {

// One-forward-one-backward (PipeDream-Flush; Narayanan et al. 2021, figure 4 top).
//
// Rank r warms up with min(ranks - 1 - r, microbatches) forwards, then alternates one forward with one
// backward, then drains. So at most min(microbatches, ranks - r) microbatches are alive on rank r.
// Idle per rank with uniform stages: (ranks - 1)(F + B), as GPipe, also for fewer microbatches than ranks.
Schedule one_f_one_b(int ranks, int microbatches);

}  // namespace simrun
