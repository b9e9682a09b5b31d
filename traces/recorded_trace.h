#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "configs/diagnostics.h"
#include "schedules/plan.h"

// What a profiler wrote, as far as a step's time is concerned, in the terms of no format. Times are
// nanoseconds of the clock of the machine that wrote the file.
namespace simrun {

// What was wrong with a trace but did not stop it from being read: how often, and where first.
struct TraceNote {
  std::int64_t count = 0;
  SourcePosition first;
};
using TraceNotes = std::map<std::string, TraceNote>;  // by what it is
void add_note(TraceNotes& notes, const std::string& what, const SourcePosition& where,
              std::int64_t count = 1);

// A stream of a device, or a thread.
struct TracedStream {
  std::string process;  // number of the device or process, as written
  std::string thread;   // likewise
  std::string name;     // "stream 7", or what the trace calls it
};

// What a kernel says of the exchange that it belongs to. Numbers are 0 where it does not say.
struct TracedExchange {
  std::string collective;  // as torch.distributed calls it: allreduce, _allgather_base, send
  std::string group;       // name of the process group
  std::string ranks;       // of the group, as written
  std::int64_t group_size = 0;
  std::int64_t bytes_in = 0, bytes_out = 0;
};

// Anything that a device did.
struct TracedKernel {
  std::int64_t start_ns = 0, duration_ns = 0;
  Index name = 0;                // into RecordedTrace::names
  Index stream = 0;              // into RecordedTrace::streams
  std::int64_t correlation = 0;  // with its launch; 0: none
  Index exchange = no_index;     // into RecordedTrace::exchanges
  Index phase = no_index;        // into RecordedTrace::names, where the trace names it: "backward_weight"
  Index function = no_index;     // likewise: "rms_norm"
};

// Something on a thread of the host that says what the kernels launched in it are for.
enum class SpanKind : std::uint8_t { step, backward, recompute, optimizer };
struct TracedSpan {
  SpanKind kind = SpanKind::step;
  std::int64_t start_ns = 0, duration_ns = 0;
  std::int64_t number = 0;  // of a step
  Index thread = 0;         // into RecordedTrace::streams
};
struct TracedLaunch {
  std::int64_t correlation = 0;
  std::int64_t start_ns = 0;
  Index thread = 0;
};

// simrun's own are of what it simulated, or of a measured step that it read.
enum class TraceOrigin : std::uint8_t { kineto, chrome, simrun, chakra, measured };
const char* to_string(TraceOrigin origin);

struct RecordedTrace {
  std::string path;
  TraceOrigin origin = TraceOrigin::chrome;
  std::optional<std::int64_t> rank;  // global, where it is told
  std::int64_t world_size = 0;       // 0: not told
  std::int64_t step_ns = 0;          // from time 0, as simrun's own traces tell; 0: not told
  std::string config_sha256;         // of the job that simrun drew, or ""
  bool is_cut_off = false;
  // Of a file that was cut off: when the last thing in it began, and whether that is a kernel.
  std::int64_t last_ns = 0;
  bool last_is_kernel = false;
  std::string device;  // its name, or ""
  std::vector<std::string> names;
  std::vector<TracedStream> streams;
  std::map<std::string, std::string> processes;  // names by number, where they have one
  std::vector<TracedKernel> kernels;             // in the file's order
  std::vector<TracedExchange> exchanges;
  std::vector<TracedSpan> spans, device_steps;
  std::vector<TracedLaunch> launches;
  std::int64_t events = 0;  // all in the file
  TraceNotes notes;
};

// Texts by number, in the order of their first use.
class NameTable {
 public:
  explicit NameTable(std::vector<std::string>& names) : names_(names) {}
  Index index_of(const std::string& name);

 private:
  std::vector<std::string>& names_;
  std::map<std::string, Index> places_;
};

}  // namespace simrun
