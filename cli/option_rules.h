#pragma once

#include <string>
#include <vector>

#include "cli/options.h"

namespace simrun {

// What is wrong with a command line, and what to do instead (or ""). No message: nothing.
struct OptionFault {
  std::string message;
  std::string hint;
};

// Flags that contradict one another, files that no flag can write, sweeps that are too large.
OptionFault fault_of(const Options& options);

}  // namespace simrun
