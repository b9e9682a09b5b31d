#pragma once

#include "cli/options.h"

namespace simrun {

// Searches a strategy for every layer (planner/galvatron_outcome.h), prints the best plan, the other
// proposals and the best whose layers are alike, and writes the best one as a job (-o, else best.yaml).
// Returns the exit code: 0, 3 if nothing fits. Throws ConfigError for jobs that it does not search.
int plan_galvatron(const Options& options, const LoadOptions& load);

}  // namespace simrun
