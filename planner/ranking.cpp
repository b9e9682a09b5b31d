#include "planner/ranking.h"

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>
#include <utility>

namespace simrun {

double goal_of(PlanObjective objective, const RankedCandidate& of) {
  return goal_of(objective, of.evaluation.step_s, static_cast<double>(of.evaluation.peak_bytes));
}

double goal_at(PlanObjective objective, const std::vector<RankedCandidate>& of, std::size_t place) {
  std::vector<double> goals;
  goals.reserve(of.size());
  for (const RankedCandidate& one : of) goals.push_back(goal_of(objective, one));
  std::ranges::nth_element(goals, goals.begin() + static_cast<std::ptrdiff_t>(place));
  return goals[place];
}

RankedCandidate as_estimated(const EstimatedCandidate& of) {
  RankedCandidate ranked{of.candidate, of.estimate, {}};
  ranked.evaluation.step_s = of.estimate.step_s;
  ranked.evaluation.peak_bytes = static_cast<std::int64_t>(of.estimate.peak_bytes);
  return ranked;
}

std::vector<RankedCandidate> as_estimated(const std::vector<EstimatedCandidate>& of,
                                          const std::set<Candidate>& but) {
  std::vector<RankedCandidate> ranked;
  for (const EstimatedCandidate& one : of)
    if (!but.contains(one.candidate)) ranked.push_back(as_estimated(one));
  return ranked;
}

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

std::int64_t lacking_bytes(const Evaluation& of) {
  return std::max<std::int64_t>(of.peak_bytes - of.limit_bytes, 0) + of.host_excess_bytes;
}

namespace {

template <typename Candidates>
auto nearest_in(Candidates& of) {
  auto nearest = of.end();
  for (auto one = of.begin(); one != of.end(); ++one)
    if (one->evaluation.refusal.empty() &&
        (nearest == of.end() || lacking_bytes(one->evaluation) < lacking_bytes(nearest->evaluation)))
      nearest = one;
  return nearest;
}

}  // namespace

std::vector<RankedCandidate>::iterator nearest_to_fit(std::vector<RankedCandidate>& of) {
  return nearest_in(of);
}

std::vector<RankedCandidate>::const_iterator nearest_to_fit(const std::vector<RankedCandidate>& of) {
  return nearest_in(of);
}

void keep_best(const PlanBase& base, std::vector<RankedCandidate> fitting, PlanSearchResult& result) {
  std::vector<RankedCandidate> front = result.pareto;
  front.insert(front.end(), fitting.begin(), fitting.end());
  result.pareto = pareto_of(std::move(front));
  sort_by_goal(fitting, base.job.plan.minimise);
  if (std::cmp_greater(fitting.size(), base.job.plan.best))
    fitting.resize(static_cast<std::size_t>(base.job.plan.best));
  result.best = std::move(fitting);
}

}  // namespace simrun
