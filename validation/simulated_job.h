#pragma once

#include <optional>
#include <string>

#include "configs/load_job.h"
#include "schedules/summary.h"
#include "sim/simulate.h"

namespace simrun {

// A job's text, loaded and simulated; or the first reason why not.
struct SimulatedJob {
  std::optional<Job> job;  // unset: refused
  Summary summary;
  double layer_s = 0;  // of a model of one layer: seconds_of_layer()
  std::string error;
};

// Never throws for what the job says: the loader's or the compiler's first message is `error`.
SimulatedJob simulate_job(const std::string& yaml, const LoadOptions& load, EngineChoice engine);

}  // namespace simrun
