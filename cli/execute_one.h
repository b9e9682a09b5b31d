#pragma once

#include "backend/processes/group.h"
#include "cli/execution_report.h"
#include "cli/options.h"
#include "cli/read_input.h"
#include "cli/training_files.h"

namespace simrun {

// A run that may begin. `how` points into `files`.
struct PreparedExecution {
  ExecuteOptions how;
  TrainingFiles files;
};

// Before anything runs: throws ConfigError with every reason why the plan cannot be run as asked, at the
// config key that would change it. `processes`: that share the run; nullptr: none.
PreparedExecution prepare_execution(const Options& options, const Input& input, ProcessGroup* processes);

// The part of one that does not speak for all: runs its ranks and is silent. Returns the exit code.
int execute_share(const Options& options, const Input& input, ProcessGroup& processes);

// Runs the plan that was simulated, and the same job on one rank without any parallelism to compare it with
// where that is small enough. `predicted`: as simulated.
ExecutionReport execute_one(const Options& options, const Input& input, const PreparedExecution& prepared,
                            const Timeline& predicted);

}  // namespace simrun
