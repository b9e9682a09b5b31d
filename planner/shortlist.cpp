#include "planner/shortlist.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <tuple>

namespace simrun {
namespace {

constexpr double near_the_best = 1.25;  // x the best estimate: twice what estimates err
constexpr std::size_t turns = 6;        // they tell how estimates of a stage err
constexpr std::size_t cut_behind = 16;  // more than twice as many as are wanted

}  // namespace

void Shortlist::offer(const EstimatedCandidate& candidate) {
  std::vector<EstimatedCandidate>& kept =
      by_stage_.at(static_cast<std::size_t>(candidate.candidate.zero_stage));
  kept.push_back(candidate);
  if (kept.size() >= 2 * most_ + cut_behind) cut(kept);
}

std::vector<EstimatedCandidate> Shortlist::all_stages() {
  std::vector<EstimatedCandidate> all;
  for (std::vector<EstimatedCandidate>& kept : by_stage_) {
    cut(kept);
    all.insert(all.end(), kept.begin(), kept.end());
  }
  return all;
}

std::vector<EstimatedCandidate> Shortlist::take() {
  double best = std::numeric_limits<double>::infinity();
  for (std::vector<EstimatedCandidate>& kept : by_stage_) {
    cut(kept);
    if (!kept.empty()) best = std::min(best, goal(kept.front()));
  }
  std::vector<EstimatedCandidate> taken, others;
  for (std::size_t turn = 0; turn < most_; ++turn)
    for (const std::vector<EstimatedCandidate>& kept : by_stage_)
      if (turn < kept.size())
        (turn < turns && goal(kept[turn]) <= near_the_best * best ? taken : others).push_back(kept[turn]);
  sort(others);
  taken.insert(taken.end(), others.begin(), others.end());
  if (taken.size() > most_) taken.resize(most_);
  return taken;
}

double Shortlist::most_worth_offering() {
  const std::vector<EstimatedCandidate> taken = take();
  if (objective_ == PlanObjective::memory || taken.size() < most_ || taken.empty())
    return std::numeric_limits<double>::infinity();
  double best = goal(taken.front()), worst = best;
  for (const EstimatedCandidate& of : taken) {
    best = std::min(best, goal(of));
    worst = std::max(worst, goal(of));
  }
  return std::max(worst, near_the_best * best);
}

void Shortlist::sort(std::vector<EstimatedCandidate>& of) const {
  std::ranges::sort(of, [&](const EstimatedCandidate& a, const EstimatedCandidate& b) {
    return std::make_tuple(goal(a), std::cref(a.candidate)) <
           std::make_tuple(goal(b), std::cref(b.candidate));
  });
}

void Shortlist::cut(std::vector<EstimatedCandidate>& of) const {
  sort(of);
  if (of.size() > most_) of.resize(most_);
}

}  // namespace simrun
