#pragma once

#include "cli/options.h"

namespace simrun {

// Simulates every point of the sweep (in worker processes where there are several), prints the table and
// writes page and CSV. A point that is refused or does not fit is a row that says so; a key that is unknown
// at every point ends the sweep before anything runs (ConfigError). Returns the exit code: 0 if a point was
// simulated, else 2.
int run_sweep(const Options& options, const LoadOptions& load);

}  // namespace simrun
