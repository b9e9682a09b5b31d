#pragma once

#include "planner/search.h"

namespace simrun {

// On a cluster with several kinds of GPU: adds to what a search found, equal shares and balances by estimates
// (planner/balanced_estimate.h), the same splits, and the job as it is written, with Whale's balance and with
// shares by simulated times (planner/balanced_plans.h). So the result is no worse than Whale's plan for the
// job as written, and than any split that was simulated. Of splits of each shape the best that fits is taken,
// where that is near the best of all; from the best of all these it climbs on (planner/climb.h). Does nothing
// on other clusters, or where plan.fix leaves the written job out of the search and nothing was found.
void add_balanced(const PlanBase& base, const PlanSearchOptions& options, PlanSearchResult& result);

}  // namespace simrun
