#include "planner/ranking.h"

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>
#include <utility>

#include "planner/shortlist.h"

namespace simrun {

void sort_by_goal(std::vector<RankedCandidate>& of, PlanObjective objective) {
  std::ranges::sort(of, [&](const RankedCandidate& a, const RankedCandidate& b) {
    const auto key = [&](const RankedCandidate& one) {
      const auto peak = static_cast<double>(one.evaluation.peak_bytes);
      return std::make_tuple(goal_of(objective, one.evaluation.step_s, peak), one.evaluation.step_s, peak,
                             std::cref(one.candidate));
    };
    return key(a) < key(b);
  });
}

std::vector<RankedCandidate> pareto_of(std::vector<RankedCandidate> of) {
  sort_by_goal(of, PlanObjective::step_time);
  std::vector<RankedCandidate> front;
  for (RankedCandidate& one : of)
    if (front.empty() || one.evaluation.peak_bytes < front.back().evaluation.peak_bytes)
      front.push_back(std::move(one));
  return front;
}

void take_evaluations(const std::vector<RankedCandidate>& known, std::vector<RankedCandidate>& of) {
  std::map<Candidate, const Evaluation*> evaluations;
  for (const RankedCandidate& one : known) evaluations.emplace(one.candidate, &one.evaluation);
  for (RankedCandidate& one : of)
    if (const auto found = evaluations.find(one.candidate); found != evaluations.end())
      one.evaluation = *found->second;
}

}  // namespace simrun
