#include "planner/approach.h"

#include <limits>
#include <set>

#include "planner/candidate_neighbours.h"
#include "planner/schedule_starts.h"

namespace simrun {

void approach_limit(const PlanBase& base, const std::vector<EstimatedCandidate>& lightest,
                    const PlanSearchResult& result,
                    const std::function<bool(const std::vector<EstimatedCandidate>&)>& simulate) {
  constexpr int most_rounds = 8;
  std::vector<EstimatedCandidate> next = lightest;
  std::set<Candidate> left;
  for (int round = 0; round < most_rounds; ++round) {
    if (!simulate(next)) return;
    const auto nearest = nearest_to_fit(result.rest);
    const bool is_nearer = nearest != result.rest.end() && left.insert(nearest->candidate).second;
    if (!is_nearer) break;
    next.clear();
    for (const Candidate& of : balanced_neighbours_of(base, nearest->candidate)) next.push_back({of, {}});
  }
  next.clear();
  for (const Candidate& of : other_schedules_of(base, result.rest, std::numeric_limits<double>::infinity()))
    next.push_back({of, {}});
  simulate(next);
}

}  // namespace simrun
