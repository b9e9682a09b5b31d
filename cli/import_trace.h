#pragma once

#include "cli/options.h"
#include "configs/load_job.h"

namespace simrun {

// --import-trace: what profilers measured of a step, alone or beside what is predicted for the job that was
// profiled. Returns the exit code. Throws ConfigError, OutputError.
int import_traces(const Options& options, const LoadOptions& load);

}  // namespace simrun
