#include "planner/approach.h"

#include <set>

#include "planner/candidate_neighbours.h"

namespace simrun {

void approach_limit(const PlanBase& base, const std::vector<EstimatedCandidate>& lightest,
                    const PlanSearchResult& result,
                    const std::function<bool(const std::vector<Candidate>&)>& simulate) {
  constexpr int most_rounds = 8;
  std::vector<Candidate> next;
  next.reserve(lightest.size());
  for (const EstimatedCandidate& of : lightest) next.push_back(of.candidate);
  std::set<Candidate> left;
  for (int round = 0; round < most_rounds; ++round) {
    if (!simulate(next)) return;
    const auto nearest = nearest_to_fit(result.rest);
    if (nearest == result.rest.end() || !left.insert(nearest->candidate).second) return;
    next = neighbours_of(base.job.job, base.job.plan, nearest->candidate);
  }
}

}  // namespace simrun
