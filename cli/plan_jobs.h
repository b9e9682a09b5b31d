#pragma once

#include "cli/options.h"

namespace simrun {

// Searches for the best way to split the job over its cluster (planner/search.h), prints the best candidates,
// the front of time and memory and why others lose, and writes the best one as a job (-o, else best.yaml).
// Ctrl-C ends the search with the best so far. Returns the exit code: 0, 3 if nothing fits, 2 if the limits
// leave no candidate (ConfigError).
int plan_jobs(const Options& options, const LoadOptions& load);

}  // namespace simrun
