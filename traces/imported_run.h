#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "traces/kernel_kind.h"
#include "traces/recorded_trace.h"

// A measured step, read from profiles: what every kernel of it is and what it is for. Times are nanoseconds
// from the begin of the step.
namespace simrun {

enum class ImportedPhase : std::uint8_t {
  forward,
  recompute,
  backward,
  optimizer,
  communication,  // whatever it is for
  unassigned      // the trace does not say
};
constexpr int imported_phase_count = static_cast<int>(ImportedPhase::unassigned) + 1;
const char* to_string(ImportedPhase phase);

struct ImportedKernel {
  std::int64_t start_ns = 0, duration_ns = 0;
  // Of the duration, at its begin: until the last rank of its exchange came. Known where all ranks of the
  // exchange were imported; else a kernel's waiting is a part of its work.
  std::int64_t wait_ns = 0;
  KernelKind kind;
  ImportedPhase phase = ImportedPhase::unassigned;
  Index name = 0;             // into ImportedRank::names
  Index stream = 0;           // into ImportedRank::streams
  Index exchange = no_index;  // into ImportedRank::exchanges
};

struct ImportedStep {
  std::int64_t number = 0;  // as the profiler counts; 0: it does not
  // Of the trace's clock: the begin of the host's mark (ProfilerStep#N), or later by what the GPU is behind
  // the host; without marks of the host's its first kernel.
  std::int64_t begin_ns = 0;
  // To the next mark's begin, of the last one to its own end; without marks of the host's to the next step's
  // first kernel, of the last step to the end of its last.
  std::int64_t length_ns = 0;
};

struct ImportedRank {
  std::int64_t rank = 0;
  std::string path;
  std::vector<std::string> names, streams;
  std::vector<TracedExchange> exchanges;
  std::vector<ImportedStep> steps;      // all in the trace
  ImportedStep step;                    // whose kernels these are
  std::vector<ImportedKernel> kernels;  // by start; without overlap on any stream
  std::int64_t late_ns = 0;             // that the step begins behind the first rank's
};

struct ImportedRun {
  TraceOrigin origin = TraceOrigin::kineto;
  std::string device;
  std::int64_t events = 0, world_size = 0;
  std::string config_sha256;        // of the job, where simrun drew it; else ""
  std::set<Opcode> split;           // exchanges whose every kernel's wait is known
  std::vector<ImportedRank> ranks;  // ascending
  TraceNotes notes;
  // From the first rank's begin to the last one's end. Begins more than a step apart are of clocks that have
  // nothing in common, and count as one.
  std::int64_t length_ns = 0;
};

// One trace per file, or several devices in one. The step is that of median length among those behind the
// first (ProfilerStep#N); without such marks the whole trace is one step. A kernel belongs to the step, and
// to the pass, in which the host launched it. Clocks of ranks that differ by more than 0.1 ms are set by the
// ends of the exchanges that they have in common. Throws ConfigError where two traces are of one rank, or a
// step is longer than an hour.
ImportedRun imported_run(std::vector<RecordedTrace> traces);

}  // namespace simrun
