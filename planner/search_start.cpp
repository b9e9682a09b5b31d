#include "planner/search_start.h"

#include <algorithm>

#include "planner/enumerated_candidates.h"
#include "planner/shortlist.h"

namespace simrun {
namespace {

// Candidates that are all simulated where none can be estimated, and those of a grid where there are more.
constexpr std::size_t enumerated_anyway = 4000, grid_anyway = 1000;

}  // namespace

EstimatedShare estimated_start(const PlanBase& base, std::size_t most, const PlanSearchOptions& options) {
  EstimatedShare all = estimate_all(base, most, options);
  Shortlist shortlist(most, base.job.plan.minimise);
  for (const EstimatedCandidate& of : all.shortlist) shortlist.offer(of);
  all.shortlist = shortlist.take();
  // Where nothing fits, what comes nearest; where nothing could be estimated, one that says why.
  if (all.shortlist.empty()) all.shortlist = first_lightest(all);
  if (all.shortlist.empty() && !all.was_stopped)
    for_each_candidate(base.job.job, base.job.plan, [&](const Candidate& candidate) {
      if (all.shortlist.empty()) all.shortlist.push_back({candidate, {}});
    });
  return all;
}

EstimatedShare enumerated_start(const PlanBase& base, std::size_t most) {
  const EnumeratedCandidates found = enumerated_candidates(
      base.job.job, base.job.plan, std::max(most, enumerated_anyway), std::max(most, grid_anyway));
  EstimatedShare all;
  all.candidates = all.feasible = found.all;
  for (const Candidate& of : found.chosen) all.shortlist.push_back({of, {}});
  return all;
}

std::int64_t count_candidates(const Job& job, const PlanConfig& limits) {
  std::int64_t count = 0;
  for_each_candidate(job, limits, [&](const Candidate&) { ++count; });
  return count;
}

}  // namespace simrun
