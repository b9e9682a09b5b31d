#pragma once

#include "cli/options.h"
#include "configs/load_job.h"

namespace simrun {

// simrun --serve: a page on 127.0.0.1 whose form changes a job and which shows what comes of it, until SIGINT
// or SIGTERM. Starts from the job of the command line, else from a shipped one. Returns 0, or 2 where it
// cannot listen. Throws ConfigError for a job that cannot be loaded.
int run_serve(const Options& options, const LoadOptions& load);

}  // namespace simrun
