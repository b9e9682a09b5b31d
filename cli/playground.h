#pragma once

#include "cli/options.h"

namespace simrun {

// simrun --schedule: a pipeline schedule alone, without a model. Draws one, or compares all that accept the
// sizes; returns the exit code. Throws ConfigError for what is wrong with the flags or the file.
int run_playground(const Options& options);

}  // namespace simrun
