#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/simulated_plan.h"

namespace simrun {

// One job that a search found, for programs.
struct FoundJob {
  std::string config;  // its YAML
  SimulatedPlan simulated;
  std::optional<double> estimated_s;
};

struct SearchCounts {
  std::int64_t candidates = 0;  // of the search's space
  std::int64_t feasible = 0;    // for which something that fits was found by its estimate
  std::int64_t evaluated = 0;   // jobs that were simulated
  double seconds = 0;
  bool was_stopped = false;
};

// {candidates, feasible, evaluated, seconds, stopped, best: [{config, step_time_s, peak_memory_bytes, ...}]},
// as plan_json() has them of a search over jobs.
std::string found_json(const SearchCounts& counts, const std::vector<FoundJob>& best);

}  // namespace simrun
