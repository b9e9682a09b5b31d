#pragma once

#include <cstdint>
#include <vector>

#include "configs/job.h"

namespace simrun {

std::vector<std::int64_t> divisors_of(std::int64_t number);

// Sequences that all ranks of a stage together may take as one microbatch, in a pipeline of so many stages:
// the largest first; not so many per rank that no memory holds them, and not so few microbatches that the
// pipeline mostly waits. `microbatches`: just so many per step; 0: any.
std::vector<std::int64_t> microbatch_sizes(const Job& job, std::int64_t pipeline, std::int64_t microbatches);

}  // namespace simrun
