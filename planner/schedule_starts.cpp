#include "planner/schedule_starts.h"

#include <cstdint>
#include <limits>
#include <set>
#include <tuple>

#include "planner/climb_starts.h"
#include "planner/other_schedules.h"
#include "planner/ranking.h"

namespace simrun {
namespace {

constexpr std::size_t most_splits = 6;
// Half a second of a search on 1,024 GPUs.
constexpr std::int64_t most_passes = 20'000;

}  // namespace

std::vector<Candidate> other_schedules_of(const PlanBase& base, const std::vector<RankedCandidate>& simulated,
                                          double most_goal) {
  const Job& job = base.job.job;
  const PlanObjective objective = base.job.plan.minimise;
  const std::size_t all = std::numeric_limits<std::size_t>::max();
  std::vector<RankedCandidate> fitting, others;
  for (const RankedCandidate& of : simulated) (of.evaluation.fits ? fitting : others).push_back(of);
  std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t>> splits;
  std::int64_t passes = 0;
  std::vector<Candidate> found;
  for (const RankedCandidate& start : climb_starts(std::move(fitting), others, objective, all)) {
    const Candidate& of = start.candidate;
    if (goal_of(objective, start) > most_goal || splits.size() == most_splits) break;
    if (!splits.emplace(of.tensor, of.context, of.pipeline).second) continue;
    for (Candidate& next : with_other_schedules(job, base.job.plan, of)) {
      passes += 2 * next.microbatches(job.training.global_batch_size) * next.pipeline * next.virtual_stages;
      if (passes <= most_passes) found.push_back(std::move(next));
    }
  }
  return found;
}

}  // namespace simrun
