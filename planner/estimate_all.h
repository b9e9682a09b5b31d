#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/search.h"
#include "planner/shortlist.h"

namespace simrun {

// What the estimates of a job's candidates come to, or of those of one process.
struct EstimatedShare {
  std::int64_t candidates = 0, feasible = 0;
  std::vector<EstimatedCandidate> shortlist;
  std::optional<EstimatedCandidate> smallest;  // by its peak
  bool was_stopped = false;
};

// Estimates every candidate that is this process's to estimate. REQUIRES: has_layer_kinds(job).
EstimatedShare estimate_share(const PlanBase& base, std::size_t most, const PlanSearchOptions& options);

// All processes' shares in one, with at most so many on its shortlist, all the same whoever did what.
EstimatedShare join_shares(const std::vector<EstimatedShare>& shares, std::size_t most, PlanObjective goal);

// As text, for other processes.
std::string to_text(const EstimatedShare& share);
EstimatedShare share_from_text(const std::string& text);  // throws std::runtime_error

}  // namespace simrun
