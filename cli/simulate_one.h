#pragma once

#include "backend/processes/group.h"
#include "cli/options.h"
#include "cli/read_input.h"

namespace simrun {

// Simulates one job or Plan, writes what was asked for and prints the summary. Returns the exit code: 0, 3
// if it does not fit, 4 if it was run (--execute) and what ran is not what was planned.
// With --execute, `processes` are those that share the run; nullptr: this process alone has all ranks.
int simulate_one(const Options& options, const LoadOptions& load, const Input& input,
                 ProcessGroup* processes);

}  // namespace simrun
