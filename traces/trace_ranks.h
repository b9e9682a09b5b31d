#pragma once

#include <vector>

#include "traces/imported_run.h"
#include "traces/recorded_trace.h"

namespace simrun {

// Of a Chrome trace of other tools, where names tell: what its devices ran. XLA's profiler and Nsight Systems
// write the host's threads as further processes, and lines that say once more what a device's streams run.
void keep_devices(RecordedTrace& trace);

// The parts of a trace by device, each with all that the host says; ranks as far as the trace names them.
std::vector<RecordedTrace> devices_of(RecordedTrace trace);

// Kernels with another one inside, as slices of threads have: only the innermost do something. Of GPUs no
// kernel is inside another; these are put on further streams where they overlap.
void keep_innermost(RecordedTrace& trace);
void separate_overlapping(RecordedTrace& trace);

// By kernel of the trace.
std::vector<ImportedPhase> phases_of(const RecordedTrace& trace, const std::vector<KernelKind>& kinds);

// By kernel the number of its step in steps_of(); -1: outside of all. No steps: all are in step 0.
struct TracedSteps {
  std::vector<ImportedStep> steps;
  std::vector<std::int64_t> of_kernel;
};
TracedSteps steps_of(const RecordedTrace& trace);

// Sets the clocks of ranks by their common exchanges, and splits what an exchange waited from what it took.
void align_clocks(ImportedRun& run);
void split_waits(ImportedRun& run);

}  // namespace simrun
