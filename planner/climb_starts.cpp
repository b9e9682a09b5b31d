#include "planner/climb_starts.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "planner/ranking.h"

namespace simrun {
namespace {

template <typename Kind>
std::vector<RankedCandidate> first_of_each(std::vector<RankedCandidate> sorted, std::size_t most,
                                           const Kind& kind_of) {
  std::set<decltype(kind_of(Candidate{}))> kinds;
  std::vector<RankedCandidate> first;
  for (RankedCandidate& one : sorted) {
    if (first.size() == most) break;
    if (kinds.insert(kind_of(one.candidate)).second) first.push_back(std::move(one));
  }
  return first;
}

void keep_pipelined(std::vector<RankedCandidate>& of, PlanObjective objective, double most_goal) {
  std::erase_if(of, [&](const RankedCandidate& one) {
    return one.candidate.pipeline == 1 || goal_of(objective, one) > most_goal;
  });
}

}  // namespace

std::vector<RankedCandidate> climb_starts(std::vector<RankedCandidate> fitting,
                                          const std::vector<RankedCandidate>& others, PlanObjective objective,
                                          std::size_t most) {
  const bool fits = !fitting.empty();
  if (!fits)
    std::ranges::copy_if(others, std::back_inserter(fitting),
                         [](const RankedCandidate& of) { return of.evaluation.refusal.empty(); });
  const auto key = [&](const RankedCandidate& of) {
    const auto peak = static_cast<double>(of.evaluation.peak_bytes);
    const std::int64_t lacks = fits ? 0 : lacking_bytes(of.evaluation);
    return std::make_tuple(lacks, goal_of(objective, of.evaluation.step_s, peak), std::cref(of.candidate));
  };
  std::ranges::sort(fitting,
                    [&](const RankedCandidate& a, const RankedCandidate& b) { return key(a) < key(b); });
  return first_of_each(std::move(fitting), most, [](const Candidate& of) {
    return std::tuple(of.tensor, of.context, of.pipeline, of.schedule);
  });
}

std::vector<RankedCandidate> pipelined_starts(std::vector<RankedCandidate> fitting, PlanObjective objective,
                                              double most_goal, std::size_t most) {
  keep_pipelined(fitting, objective, most_goal);
  return climb_starts(std::move(fitting), {}, objective, most);
}

std::vector<RankedCandidate> pipelined_starts_by_microbatch(std::vector<RankedCandidate> fitting,
                                                            PlanObjective objective, double most_goal,
                                                            std::size_t most) {
  keep_pipelined(fitting, objective, most_goal);
  sort_by_goal(fitting, objective);
  return first_of_each(std::move(fitting), most, [](const Candidate& of) {
    return std::tuple(of.tensor, of.context, of.pipeline, of.schedule, of.micro_batch);
  });
}

}  // namespace simrun
