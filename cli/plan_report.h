#pragma once

#include <string>

#include "planner/nearest_that_fits.h"
#include "planner/search.h"

namespace simrun {

// For the terminal: what was searched, the table of the best, the front of time and memory, why the next ones
// lose, and what a training costs where the job says its tokens, a price or a power. Where nothing fits, what
// comes nearest, and what would fit.
std::string plan_text(const PlanBase& base, const PlanSearchResult& result, const FittingSearch& fitting);

struct PlanRun {
  double seconds = 0;
  std::string likely = "null";  // likely_json() of the best
};

// For programs: {candidates, feasible, evaluated, seconds, likely, best: [{config, step_time_s, ...}],
// pareto, ...}. `config` is the candidate's job file. Where nothing fits also `nearest`, a candidate or null,
// and `nearest_that_fits`, one with its `change` of the job or null.
std::string plan_json(const PlanBase& base, const PlanSearchResult& result, const FittingSearch& fitting,
                      const PlanRun& run);

// The candidate's job as YAML, with the search that found it in a comment.
std::string plan_yaml(const PlanBase& base, const RankedCandidate& found);

}  // namespace simrun
