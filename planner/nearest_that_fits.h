#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "planner/search.h"

namespace simrun {

// A job that fits, of one that does not within its limits.
struct NearestThatFits {
  std::string change;  // in words: "without plan.max_memory", "with 4 nodes (32 GPUs)"
  PlanBase base;       // the changed job
  RankedCandidate best;
};

// What was tried, and the first that fits.
struct FittingSearch {
  std::optional<NearestThatFits> found;
  bool tried_limits = false, tried_nodes = false;
  bool was_stopped = false;  // before all was tried
  std::string group;         // whose nodes were multiplied; "": of GPUs of one kind
};

// The job with a number of nodes changed; nothing where it does not load.
using BaseWith = std::function<std::optional<PlanBase>(const Override& nodes)>;

// The first change with which something fits: without plan.max_memory, without one key of plan.fix, without
// either, and on 2, 3, 4, 6, 8 ... 64 times as many nodes, of several kinds of those with most memory. `with`
// may be empty. Not tried for jobs that have no estimates (has_layer_kinds): every candidate of every change
// would be simulated.
FittingSearch nearest_that_fits(const PlanBase& base, const BaseWith& with, const PlanSearchOptions& options);

}  // namespace simrun
