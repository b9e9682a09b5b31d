#pragma once

#include <vector>

#include "planner/candidate.h"

namespace simrun {

// Candidates within the limits on the same tensor-, context-, pipeline- and data-parallel ranks that differ
// from `of` in one choice: experts, microbatch, ZeRO stage, overlap, recompute, how sequences are divided
// (planner/candidate_variants.h), or the schedule with its
// virtual stages; of a number only the next smaller and the next larger one that divides, but every
// expert-parallel size. In their own order.
std::vector<Candidate> neighbours_of(const Job& job, const PlanConfig& limits, const Candidate& of);

}  // namespace simrun
