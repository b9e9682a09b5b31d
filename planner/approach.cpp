#include "planner/approach.h"

#include <set>

#include "planner/candidate_neighbours.h"

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
    if (nearest == result.rest.end() || !left.insert(nearest->candidate).second) return;
    next.clear();
    for (const Candidate& of : balanced_neighbours_of(base, nearest->candidate)) next.push_back({of, {}});
  }
}

}  // namespace simrun
