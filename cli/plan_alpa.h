#pragma once

#include "cli/options.h"

namespace simrun {

// Searches with both levels of Alpa (planner/alpa_outcome.h), prints the best plan's stages and layouts, the
// other proposals and what stands beside them, and writes the best one as a job (-o, else best.yaml). Returns
// the exit code: 0, 3 if nothing fits. Throws ConfigError for jobs that it does not search.
int plan_alpa(const Options& options, const LoadOptions& load);

}  // namespace simrun
