#pragma once

#include "cli/options.h"
#include "cli/processes.h"

namespace simrun {

// Searches for the best way to split the job over its cluster (planner/search.h), prints the best candidates,
// the front of time and memory and why others lose, and writes the best one as a job (-o, else best.yaml).
// Ctrl-C ends the search with the best so far. Returns the exit code: 0, 3 if nothing fits, 2 if the limits
// leave no candidate (ConfigError).
//
// `processes`: share the work, with the same result; the first prints and writes. nullptr: this one is alone.
// Where one is lost, or is told to end (Ctrl-C), all end without a result.
int plan_jobs(const Options& options, const LoadOptions& load, ProcessGroup* processes);

}  // namespace simrun
