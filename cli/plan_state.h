#pragma once

#include <map>
#include <string>

#include "planner/search.h"

namespace simrun {

// What a search has simulated so far, for --resume: one line per candidate, behind the job's hash. A file of
// this version of simrun only.
std::string plan_state(const PlanBase& base, const PlanSearchResult& result,
                       const std::map<Candidate, Evaluation>& known);

// Throws ConfigError if the file cannot be read or is of another job or version.
std::map<Candidate, Evaluation> read_plan_state(const std::string& path, const PlanBase& base);

}  // namespace simrun
