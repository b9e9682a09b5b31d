#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "backend/rank_clock.h"
#include "schedules/instruction_costs.h"
#include "schedules/plan.h"
#include "schedules/timeline.h"

namespace simrun {

// What the clocks of all ranks of a run say, by rank. The first step is a warm-up and not counted where
// there are others; steps with other entries than the last one (Steps::first_only) neither.
struct Measurement {
  std::vector<std::vector<MeasuredStep>> ranks;  // by rank, then step
  std::string device;                            // "cpu f32"
  int cores = 1;                                 // that the ranks shared
  std::string unit = "core";                     // or GPU
  // Nothing was timed, or not every rank in this process.
  bool empty() const {
    return ranks.empty() ||
           std::any_of(ranks.begin(), ranks.end(), [](const auto& steps) { return steps.empty(); });
  }
};

// One number for each of several repetitions. Quantiles are those of the sorted values, the lower one of two
// neighbours.
struct Spread {
  double median = 0, p10 = 0, p90 = 0;
  int repetitions = 0;
};
Spread spread_of(std::vector<double> values);

// From the first rank's begin to the last one's end, in seconds, over the counted steps.
Spread measured_step_seconds(const Measurement& measurement);

// The counted step of median length as a Timeline: places from the monotonic clock; the duration of an
// instruction is the median over the counted steps of its own work, cut where the next one began. A
// communication's `wait` is its waiting for other ranks. The first device of each pipeline rank has lanes and
// passes. What a rank does not do itself counts as idle: pipeline transfers as p2p, other communication as
// exposed. provenance: the device; engine: "device".
Timeline measured_timeline(const Plan& plan, const Measurement& measurement);

// The median over the counted steps of every instruction's own work.
InstructionCosts measured_costs(const Plan& plan, const Measurement& measurement);

}  // namespace simrun
