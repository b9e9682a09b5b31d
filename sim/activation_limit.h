#pragma once

#include "schedules/plan.h"

namespace simrun {

// How many (stage, microbatch) activations every rank can hold beside its weights, gradients and optimizer
// state, in the GPU's memory less the cluster's reserve; from the plan's own bytes, with room for the highest
// point within a pass. At least one per stage of a rank, even if those do not fit; 0: all fit at once.
//
// Counts what a (stage, microbatch) holds at most between two passes on the stage that holds most, so that
// any schedule of these passes that keeps the limit fits.
int activation_limit(const Plan& plan);

}  // namespace simrun
