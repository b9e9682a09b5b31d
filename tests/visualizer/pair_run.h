#pragma once

#include "schedules/plan.h"
#include "schedules/timeline.h"

namespace simrun {

// A compiled job of DualPipe on 4 pipeline ranks with 8 microbatches (dualpipe: two pipelines over the same
// stages, 4 microbatches each; dualpipe_v: one V), whose steady state is overlapped pairs. Its times are made
// by hand: each instruction takes 1 us, the instructions of a rank run one after another in the order of
// issue, and receives stand a second later, so that each follows its send.
struct PairRun {
  Plan plan;
  Timeline timeline;
};
PairRun pair_run(const char* schedule = "dualpipe");

}  // namespace simrun
