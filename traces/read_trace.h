#pragma once

#include <string>
#include <vector>

#include "traces/recorded_trace.h"

namespace simrun {

// The files of traces that a path means: itself, or those in the folder that end in .json, .json.gz or .et,
// by name. Throws ConfigError if there is none.
std::vector<std::string> trace_files(const std::string& path);

// Whether a file of this name may be one: *.json, *.json.gz or *.et.
bool is_trace_name(const std::string& name);

// A trace in whichever format its first bytes are of: JSON (traces/read_chrome.h) or Chakra's messages
// (traces/read_chakra.h), plain or gzip'd. Throws ConfigError.
RecordedTrace read_trace(const std::string& path);

}  // namespace simrun
