#pragma once

#include "cli/options.h"

namespace simrun {

// Balances the job over the kinds of GPU of its cluster as Whale does (planner/balanced_plans.h), prints
// every balance beside the job as it is written, and writes the best that fits as a job (-o, else best.yaml).
// Returns the exit code: 0, 3 if nothing fits. Throws ConfigError for jobs on GPUs of one kind.
int plan_whale(const Options& options, const LoadOptions& load);

}  // namespace simrun
