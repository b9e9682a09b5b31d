#pragma once

#include "schedules/op.h"

namespace simrun {

// PipeDream's asynchronous 1F1B (Narayanan et al. 2019, SOSP): no flush and no common optimizer step. Every
// backward updates its stage's weights at once, and the next microbatch's forward follows.
//
// The lists are one_f_one_b's over `microbatches`: the order of passes is the same, and one run shows the
// pipeline's fill and drain, which training without a flush has only once; steady passes leave no bubble.
// What the lists do not show: each microbatch's backward uses the weights that its forward used, so a stage
// stashes a version per microbatch alive, pipedream_weight_versions(); and the updates, one per backward
// instead of one per list.
Schedule pipedream(int ranks, int microbatches);

// Versions of its stage's weights that a rank holds, the newest included: ranks - rank.
int pipedream_weight_versions(int ranks, int rank);

}  // namespace simrun
