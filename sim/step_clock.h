#pragma once

#include "schedules/plan.h"

namespace simrun {

// What the kernels of the plan's passes draw on average, by what products alone do at the same clock: 1 if
// they were nothing but products. Of the pipeline rank in the middle, each of its passes counted once.
double power_of_passes(const Plan& plan);

// The plan with the clock of its own mix of kernels. A GPU at its power limit lowers its clock by what it
// draws on average, and dynamic power grows with its cube (frequency times the square of the voltage), so
// that steps which draw less than those on which `sustained` was fitted keep more of the rate:
//   sustained x (power of those / power of the plan's)^(1/3), never less than `sustained`, at most 1.
// As stated where a GPU's powers are not, or GPUs are of several kinds.
Plan with_step_clock(Plan plan);

}  // namespace simrun
