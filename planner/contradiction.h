#pragma once

#include "configs/diagnostics.h"
#include "configs/load_job.h"

namespace simrun {

// Of a job whose plan.fix leaves no candidate: which of its keys alone does, where that is written and what
// it could be.
ConfigError contradiction_of_limits(const LoadedJob& loaded);

}  // namespace simrun
