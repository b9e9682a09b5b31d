#pragma once

#include <cstddef>
#include <vector>

#include "planner/candidate.h"
#include "planner/evaluate_candidate.h"
#include "planner/search.h"

namespace simrun {

// Candidates within the limits on the same tensor-, context-, pipeline- and data-parallel ranks that differ
// from `of` in one choice: experts, microbatch, ZeRO stage, overlap, recompute, how sequences are divided
// (planner/candidate_variants.h), or the schedule with its
// virtual stages; of a number only the next smaller and the next larger one that divides, but every
// expert-parallel size. In their own order.
std::vector<Candidate> neighbours_of(const Job& job, const PlanConfig& limits, const Candidate& of);

// The same with the balance of `of` where they have its virtual stages: its layers as they are dealt.
std::vector<Candidate> balanced_neighbours_of(const PlanBase& base, const Candidate& of);

// Of the first so many, those with the other overlap, where the job leaves that open.
std::vector<Candidate> with_other_overlaps(const PlanBase& base, const std::vector<RankedCandidate>& of,
                                           std::size_t first);

}  // namespace simrun
