#pragma once

#include "cli/options.h"
#include "cli/read_input.h"

namespace simrun {

// Simulates one job or Plan, writes what was asked for and prints the summary. Returns the exit code: 0, or 3
// if it does not fit.
int simulate_one(const Options& options, const LoadOptions& load, const Input& input);

}  // namespace simrun
