#pragma once

#include <functional>
#include <vector>

#include "planner/ranking.h"
#include "planner/search.h"
#include "planner/shortlist.h"

namespace simrun {

// Where nothing fits though it seemed to: what needs least by its estimate, then the neighbours of what comes
// nearest to its limit (candidate_neighbours.h), as long as one comes nearer; a few rounds; and then
// schedules without estimates (schedule_starts.h). `simulate` adds what it is given to result.rest and says
// whether to go on.
void approach_limit(const PlanBase& base, const std::vector<EstimatedCandidate>& lightest,
                    const PlanSearchResult& result,
                    const std::function<bool(const std::vector<EstimatedCandidate>&)>& simulate);

}  // namespace simrun
