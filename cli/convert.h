#pragma once

#include "cli/options.h"
#include "configs/load_job.h"

namespace simrun {

// --export FORMAT CONFIG: the job in another program's words, on standard output or in the file of -o.
// Returns 0; throws ConfigError where the format has no words for it.
int export_job(const Options& options, const LoadOptions& load);

// --import FORMAT FILE: the job that another program's file describes, as YAML, likewise.
int import_job(const Options& options, const LoadOptions& load);

}  // namespace simrun
