#pragma once

#include "cli/options.h"

namespace simrun {

// Runs one command line; returns the exit code (see --help). Messages go to standard error, results to
// standard output.
int run(const Options& options);

}  // namespace simrun
