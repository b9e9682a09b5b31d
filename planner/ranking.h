#pragma once

#include <cstddef>
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

// By the objective; equal ones in their own order.
void sort_by_goal(std::vector<RankedCandidate>& of, PlanObjective objective);

// Those that none beats in both time and memory, fastest first.
std::vector<RankedCandidate> pareto_of(std::vector<RankedCandidate> of);

// What is known of these candidates in place of what was known of them: times with shared links.
void take_evaluations(const std::vector<RankedCandidate>& known, std::vector<RankedCandidate>& of);

}  // namespace simrun
