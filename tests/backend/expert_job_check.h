#pragma once

#include "tests/backend/tiny_jobs.h"

namespace simrun {

// Runs a job with experts in f64: loss, gradients and parameters are those of one rank that counts capacities
// and balance losses over the same tokens, within `tolerance`, and memory is the simulator's for the rows
// that experts had.
void check_expert_job(const TinyJob& job, double tolerance = 1e-10);

}  // namespace simrun
