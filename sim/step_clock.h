#pragma once

#include "schedules/plan.h"

namespace simrun {

// What the compute kernels of the plan's passes draw on average, by what products alone do at the same clock:
// 1 if they were nothing but products. Of the pipeline rank in the middle, each of its passes counted once.
// Requires a program.
double power_of_passes(const Plan& plan);

// Share of the best rate of products and attention that a step keeps whose kernels draw so much on average.
// A GPU at its power limit lowers its clock by what it draws on average. Rates follow the clock, and power
// their cube: dynamic power is capacitance x voltage^2 x frequency (Hennessy and Patterson, "Computer
// Architecture", fifth edition, section 1.5), and the voltage falls with the frequency. So steps which draw
// less than those on which `sustained` was fitted keep more:
//   sustained x (power.fitted / power)^(1/3), never less than `sustained`, at most 1.
// Mixes of kernels alone keep what that says with `fitted` 1, within 2 % (tests/data/kernels/h200_clock.csv);
// a whole step also has links and a host at work.
double kept_share(const GpuKernels& kernels, double power);

// The plan with `sustained` for its own mix of kernels. Requires a plan as compile() makes it. As it is where
// the GPU's powers are not stated, or GPUs are of several kinds.
Plan with_step_clock(Plan plan);

}  // namespace simrun
