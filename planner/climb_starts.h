#pragma once

#include <cstddef>
#include <vector>

#include "planner/search.h"

namespace simrun {

// From where a search climbs: the best of each split of the ranks under each schedule by the objective, the
// best first and no more than `most`. Where none of them fits, of the others that can be run those that come
// nearest.
std::vector<RankedCandidate> climb_starts(std::vector<RankedCandidate> fitting,
                                          const std::vector<RankedCandidate>& others, PlanObjective objective,
                                          std::size_t most);

// The same of those that have a pipeline and come to no more than `most_goal`.
std::vector<RankedCandidate> pipelined_starts(std::vector<RankedCandidate> fitting, PlanObjective objective,
                                              double most_goal, std::size_t most);

// Likewise, of each size of microbatches too: which is best may be another one once the layers lie well.
std::vector<RankedCandidate> pipelined_starts_by_microbatch(std::vector<RankedCandidate> fitting,
                                                            PlanObjective objective, double most_goal,
                                                            std::size_t most);

}  // namespace simrun
