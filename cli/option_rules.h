#pragma once

#include <string>
#include <vector>

#include "cli/option_fault.h"
#include "cli/options.h"

namespace simrun {

// Flags that contradict one another or are not read, files that no flag can write, sweeps that are too large,
// jobs that are missing. `given`: the flags on the command line ("--json", "-o").
OptionFault fault_of(const Options& options, const std::vector<std::string>& given);

}  // namespace simrun
