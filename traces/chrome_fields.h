#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

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

// The whole number that a text begins with; 0: none.
std::int64_t leading_number(std::string_view text);

// "8", and "8.0" of who writes floats; nothing of 1.5, of -1 and of what is no number.
std::optional<std::int64_t> whole_count(std::string_view text);

// Of PyTorch's name of a type; 0: not known.
std::int64_t bytes_of_dtype(const std::string& dtype);

}  // namespace simrun
