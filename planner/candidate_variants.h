#pragma once

#include <vector>

#include "planner/candidate.h"

namespace simrun {

// The same ranks, microbatches, schedule and sharding, but another way to divide a sequence: tensor-parallel
// ranks that hold it whole, or context-parallel ones that exchange otherwise (cp_comm_type, which the job
// leaves open), each by itself and each exchange with whole sequences, too. In order, without the candidate
// itself. What the loader refuses of them (heads that do not divide) is still among them, but for sizes that
// do not divide the group.
std::vector<Candidate> variants_of(const Job& job, const PlanConfig& limits, const Candidate& candidate);

}  // namespace simrun
