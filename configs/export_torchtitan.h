#pragma once

#include <string>

#include "configs/job.h"

namespace simrun {

// The job as a recipe of torchtitan: a Python function that takes a recipe of its registry for the same model
// (or gets one, where the registry has none) and sets what the job says. Names are those of
// torchtitan/config/training.py and parallelism.py, whose commits it tells; what has none is listed in
// comments. `csv`: where the order of passes will be (schedules/schedule_grid.h, to_csv), for schedules that
// torch.distributed.pipelining has no class for. Throws ConfigError for models that are no decoders.
std::string torchtitan_recipe(const Job& job, const std::string& version, const std::string& csv);

}  // namespace simrun
