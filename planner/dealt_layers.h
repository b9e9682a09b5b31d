#pragma once

#include <vector>

#include "planner/evaluate_candidate.h"
#include "planner/search.h"

namespace simrun {

// The candidate with its layers dealt to stages by what they take: where the head costs as much as some
// layers, the last stage has so many fewer. Empty where that is as equal as they lie anyway, or nobody can
// tell (one stage, a balance of its own, a model without kinds of layers, sizes that do not divide).
std::vector<Candidate> with_dealt_layers(const PlanBase& base, const Candidate& of);

// Of each of these, behind what is there.
void add_dealt_layers(const PlanBase& base, const std::vector<RankedCandidate>& of,
                      std::vector<Candidate>& dealt);

// Whether every size, schedule and recompute may be tried, and so the job as it is written.
bool fixes_nothing(const PlanConfig& limits);

// The job itself, where it says how its layers lie and nothing limits the search; else nothing.
std::vector<Candidate> written_layout(const PlanBase& base);

}  // namespace simrun
