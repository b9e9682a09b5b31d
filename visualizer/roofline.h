#pragma once

#include <string>
#include <vector>

#include "schedules/plan.h"
#include "schedules/timeline.h"

namespace simrun {

// What one operator's kernels of one rank do in a step.
struct OperatorWork {
  std::string name;  // label and kernel: "fc1 gemm"
  std::int64_t count = 0;
  double seconds = 0;
  double flops =
      0;  // matrix FLOPs, of flash attention under a causal mask the half that is not masked; 0: none
  double bytes = 0;  // of all operands, each once
};

// The kernels of a recorded rank's compute stream, those that take longest first. Empty without instructions.
std::vector<OperatorWork> operator_work(const Plan& plan, const RankTimeline& rank);

// Where the operators stand under the device's roof, HTML: FLOP/s over FLOPs per byte on log scales, circles
// as large as the time that they take, and a table with those that have no matrix FLOPs as well. Source:
// Williams, Waterman, Patterson, Roofline, CACM 52(4), 2009.
std::string roofline_html(const Plan& plan, const RankTimeline& rank);

}  // namespace simrun
