#pragma once

#include "cli/execution_report.h"
#include "cli/options.h"
#include "cli/read_input.h"

namespace simrun {

// Before anything runs: throws ConfigError with every reason why the plan cannot be run as asked, at the
// config key that would change it.
void check_execution(const Options& options, const Input& input);

// Runs the plan that was simulated, and the same job on one rank without any parallelism to compare it with
// where that is small enough. REQUIRES: check_execution() was content. `predicted_step_s`: as simulated.
ExecutionReport execute_one(const Options& options, const Input& input, double predicted_step_s);

}  // namespace simrun
