#pragma once

#include <string>
#include <vector>

#include "configs/load_job.h"
#include "planner/unsearched.h"

namespace simrun {

// Throws ConfigError with everything that a mode of --plan does not search of the job, and does not know of
// its limits, if any, each at its key as far as the job has written it.
void refuse_unsearched(const LoadedJob& job, const std::string& file, std::vector<Unsearched> of_job,
                       const std::vector<Unsearched>& of_limits);

}  // namespace simrun
