#pragma once

#include "schedules/plan.h"
#include "schedules/timeline.h"

namespace simrun {

// Two pipeline ranks, one microbatch, one transfer; small enough to follow by hand. Times in ps:
//
//   rank 0  compute  gemm qkv   0 .. 1,234,567
//           pp       send       1,234,567 .. 3,234,900
//   rank 1  compute             gemm 3,234,900 .. 4,235,000, then an optimizer instruction of no length
//           pp       recv       1,234,567 .. 3,234,900, after a wait of 1,500,000
//
// [4 x 8] x [8 x 2] -> [4 x 2], bf16. A third GPU (of rank 1) is not recorded. One link with four slices of
// utilisation.
struct TransferRun {
  Plan plan;
  Timeline timeline;
};
TransferRun transfer_run();

}  // namespace simrun
