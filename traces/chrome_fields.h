#pragma once

#include <string>

#include "traces/json_stream.h"

namespace simrun {

// The texts of one event of a Chrome trace (Google, "Trace Event Format") that matter here; "" where it has
// none. Numbers are as written.
struct ChromeFields {
  std::string phase;  // X, B, E, M ...
  std::string category, name, pid, tid, start, duration;
  // of "args", as Kineto writes them
  std::string correlation, collective, group, group_ranks, group_size, elements_in, elements_out, dtype;
  std::string named;                       // of metadata: the process's or thread's name
  std::string pass_phase, function, wait;  // of simrun's own
  SourcePosition position;
};

// The event whose '{' was read last. False: cut off in it.
bool read_chrome_fields(JsonStream& json, ChromeFields& fields);

}  // namespace simrun
