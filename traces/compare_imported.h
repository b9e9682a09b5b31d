#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schedules/measured_comparison.h"
#include "traces/imported_run.h"

namespace simrun {

// Of one imported run, over its ranks: each with the prediction of its pipeline rank, where there is one.
struct ImportedComparison {
  MeasuredComparison rows;  // by kind: opcodes, SEND and RECV as send_recv, "unknown"; by ImportedPhase
  std::vector<ComparedTime> by_time;  // of the step, mean over the ranks: compute, exposed, idle
};

// Kernels count without the gap before the next one (gpu.kernel_launch), which is idle. An exchange counts
// with its waiting for other ranks on both sides, unless the waits of all exchanges of its kind are known
// (ImportedRun::split). REQUIRES: `predicted` has lanes of one rank of each pipeline rank.
ImportedComparison compare_imported(const Plan& plan, const Timeline& predicted, const ImportedRun& run);

// With nothing predicted.
ImportedComparison tally_imported(const ImportedRun& run);

// Kernels whose kind is not known, by name, most time first.
struct UnknownKernel {
  std::string name;
  std::int64_t count = 0;
  double seconds = 0;
  bool operator==(const UnknownKernel&) const = default;
};
std::vector<UnknownKernel> unknown_kernels(const ImportedRun& run);

}  // namespace simrun
