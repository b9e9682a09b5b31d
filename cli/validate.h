#pragma once

#include "cli/options.h"

namespace simrun {

// Simulates every row of a file of published measurements and prints how far off the predictions are, by
// source;
// --csv writes every row, --html the plot, --json prints the scores for programs. Rows that cannot be
// simulated are listed with why. Returns 0, or 2 if no row could be scored. Throws ConfigError for a header
// or a filter that is wrong.
int run_validate(const Options& options, const LoadOptions& load);

}  // namespace simrun
