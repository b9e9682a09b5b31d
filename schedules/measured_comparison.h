#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schedules/plan.h"
#include "schedules/timeline.h"

namespace simrun {

// Of a Timeline that was imported: its engine, and segments of kernels of which nobody knows what they are
// for.
constexpr const char* imported_engine = "trace";
constexpr const char* unassigned_segment = "unassigned";

// Seconds of the instructions of one kind or phase, over the recorded GPUs (one of each pipeline rank).
// Waiting for other ranks is not among them.
struct ComparedTime {
  std::string name;
  double predicted_s = 0, measured_s = 0;
  std::int64_t instructions = 0;
  // (predicted - measured) / measured; 0 where nothing was measured.
  double error() const;
  bool operator==(const ComparedTime&) const = default;
};

struct MeasuredComparison {
  ComparedTime step;                            // of all ranks; instructions: of the recorded GPUs
  std::vector<ComparedTime> by_kind, by_phase;  // by opcode and by Phase, in their order
  std::int64_t gpus = 1;                        // whose times these two tables add up
  bool operator==(const MeasuredComparison&) const = default;
};

const char* to_string(Phase phase);

// What was predicted beside what was measured of the same plan. REQUIRES: both at Detail::instructions.
MeasuredComparison compare_measured(const Plan& plan, const Timeline& predicted, const Timeline& measured);

}  // namespace simrun
