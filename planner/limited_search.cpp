#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "planner/plan_memory.h"
#include "planner/search.h"

namespace simrun {
namespace {

bool has_tighter_limit(const PlanBase& base) {
  const std::int64_t limit = base.job.plan.max_memory;
  return limit > 0 && limit < largest_memory(base.job.job.cluster) && base.job.job.world_size() <= few_gpus;
}

// Those of another search, without the limit of memory, that keep to it.
std::vector<RankedCandidate> within(std::int64_t limit, const PlanSearchResult& other) {
  std::vector<RankedCandidate> kept;
  std::set<Candidate> taken;
  for (const std::vector<RankedCandidate>& all : {other.best, other.pareto})
    for (const RankedCandidate& of : all) {
      if (of.evaluation.peak_bytes > limit || !taken.insert(of.candidate).second) continue;
      kept.push_back(of);
      kept.back().evaluation.limit_bytes = std::min(of.evaluation.limit_bytes, limit);
    }
  return kept;
}

void join(const PlanBase& base, const std::vector<RankedCandidate>& others, PlanSearchResult& result) {
  std::vector<RankedCandidate> all = result.best;
  std::set<Candidate> known;
  for (const RankedCandidate& of : all) known.insert(of.candidate);
  for (const RankedCandidate& of : others)
    if (known.insert(of.candidate).second) all.push_back(of);
  keep_best(base, all, result);
  std::set<Candidate> best;
  for (const RankedCandidate& of : result.best) best.insert(of.candidate);
  std::erase_if(result.rest, [&](const RankedCandidate& of) { return known.contains(of.candidate); });
  for (RankedCandidate& of : all)
    if (!best.contains(of.candidate)) result.rest.push_back(std::move(of));
}

}  // namespace

PlanSearchResult search_jobs(const PlanBase& base, const PlanSearchOptions& options) {
  PlanSearchResult result = search_jobs_once(base, options);
  if (result.was_stopped || !has_tighter_limit(base)) return result;
  PlanBase unlimited = base;
  unlimited.job.plan.max_memory = 0;
  PlanSearchOptions again = options;
  again.known.clear();  // whether those fit was said under the limit
  const PlanSearchResult other = search_jobs_once(unlimited, again);
  result.evaluated += other.evaluated;
  result.was_stopped = other.was_stopped;
  if (!other.is_without_contention) join(base, within(base.job.plan.max_memory, other), result);
  return result;
}

}  // namespace simrun
