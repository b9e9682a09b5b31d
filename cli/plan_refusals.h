#pragma once

#include <string>
#include <vector>

#include "configs/load_job.h"
#include "planner/unsearched.h"

namespace simrun {

// Throws ConfigError with all of them, if any, each at its key as far as the job has written it.
void refuse_unsearched(const LoadedJob& job, const std::string& file,
                       const std::vector<Unsearched>& unsearched);

}  // namespace simrun
