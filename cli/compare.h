#pragma once

#include "cli/options.h"

namespace simrun {

// Simulates two jobs or Plans and prints their numbers side by side, with the config keys that differ.
// Returns the exit code: 0, or 3 if neither fits.
int compare(const Options& options, const LoadOptions& load);

}  // namespace simrun
