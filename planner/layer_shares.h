#pragma once

#include <cstdint>
#include <vector>

#include "planner/candidate.h"
#include "planner/pass_costs.h"

namespace simrun {

// A stage holds something: where that is the embedding or the loss, it needs no layer.
inline std::int64_t least_layers(const StageContent& stage) { return stage.embedding || stage.loss ? 0 : 1; }

// The job's layers over the stages of the candidate, so that the last pipeline rank is done first: each next
// layer goes to the rank that would be done first with it, and there to the stage that would be. By pipeline
// rank: what passes cost, and how many layers it has memory for; what is left when none has memory goes where
// it is least too much. Empty: there are fewer layers than stages.
std::vector<StageContent> stages_by_time(const Job& job, const Candidate& candidate,
                                         const std::vector<const PassCosts*>& of_ranks,
                                         const std::vector<std::int64_t>& rooms);

}  // namespace simrun
