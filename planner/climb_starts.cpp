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
  std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t, std::string>> starts;
  std::vector<RankedCandidate> best;
  for (RankedCandidate& one : fitting) {
    const Candidate& of = one.candidate;
    if (best.size() == most) break;
    if (starts.emplace(of.tensor, of.context, of.pipeline, of.schedule).second)
      best.push_back(std::move(one));
  }
  return best;
}

std::vector<RankedCandidate> pipelined_starts(std::vector<RankedCandidate> fitting, PlanObjective objective,
                                              double most_goal, std::size_t most) {
  std::erase_if(fitting, [&](const RankedCandidate& of) {
    return of.candidate.pipeline == 1 || goal_of(objective, of) > most_goal;
  });
  return climb_starts(std::move(fitting), {}, objective, most);
}

}  // namespace simrun
