#pragma once

#include <string>
#include <vector>

#include "cli/options.h"
#include "configs/load_job.h"

namespace simrun {

// Orders of axes over the GPUs that place ranks differently, Megatron-LM's first: of the axes with more than
// one rank every permutation, of four only those with tp fastest.
std::vector<std::string> placement_orders(const Parallelism& parallelism);

// The options with a sweep over the placement_orders() of their job. Throws ConfigError.
Options with_rank_orders(const Options& options, const LoadOptions& load);

}  // namespace simrun
