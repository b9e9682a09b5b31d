#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "configs/plan_config.h"
#include "planner/search.h"
#include "planner/shortlist.h"

namespace simrun {

double goal_of(PlanObjective objective, const RankedCandidate& of);

// That of the one at `place` among them.
double goal_at(PlanObjective objective, const std::vector<RankedCandidate>& of, std::size_t place);

// What its estimate says, in place of an evaluation.
RankedCandidate as_estimated(const EstimatedCandidate& of);
std::vector<RankedCandidate> as_estimated(const std::vector<EstimatedCandidate>& of,
                                          const std::set<Candidate>& but);

// By the objective; equal ones in their own order.
void sort_by_goal(std::vector<RankedCandidate>& of, PlanObjective objective);

// Those that none beats in both time and memory, fastest first.
std::vector<RankedCandidate> pareto_of(std::vector<RankedCandidate> of);

// What its fullest GPU needs beyond its limit, and a node's host beyond its own.
std::int64_t lacking_bytes(const Evaluation& of);

// The one that lacks least memory, of those that can be run; end() where none can.
std::vector<RankedCandidate>::iterator nearest_to_fit(std::vector<RankedCandidate>& of);
std::vector<RankedCandidate>::const_iterator nearest_to_fit(const std::vector<RankedCandidate>& of);

// What is known of these candidates in place of what was known of them: times with shared links.
void take_evaluations(const std::vector<RankedCandidate>& known, std::vector<RankedCandidate>& of);

}  // namespace simrun
