#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/candidate.h"
#include "planner/pass_costs.h"

namespace simrun {

// The job's layers over the stages of the candidate, so that the last pipeline rank is done first: each next
// layer goes to the rank that would be done first with it, and there to the stage that would be. By pipeline
// rank: what passes cost, and how many layers it has memory for. Nothing: together they have no room for all.
std::optional<std::vector<StageContent>> stages_by_time(const Job& job, const Candidate& candidate,
                                                        const std::vector<const PassCosts*>& of_ranks,
                                                        const std::vector<std::int64_t>& rooms);

}  // namespace simrun
