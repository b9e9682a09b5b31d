#pragma once

#include "cli/options.h"

namespace simrun {

// Fits the declared coefficients of one device (configs/validation/coefficients.yaml) to a file of published
// measurements and prints them with what supports them; --coefficients writes them as part of the device's
// file. Returns 0, or 2 if no row that counts ran on the device. Throws ConfigError for what is wrong in the
// file's header, a filter or the device's name.
int run_fit(const Options& options, const LoadOptions& load);

}  // namespace simrun
