#pragma once

#include "cli/options.h"

namespace simrun {

// --collective: a collective alone on a cluster, as nccl-tests would measure it. Prints the table (or JSON),
// writes the page if one is asked for. Returns the exit code. Throws ConfigError with everything that is
// wrong with the flags, or with the cluster.
int run_collective(const Options& options, const LoadOptions& load);

}  // namespace simrun
