#include "planner/refinements.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <tuple>
#include <utility>

#include "configs/node_groups.h"
#include "planner/candidate_neighbours.h"
#include "planner/climb_starts.h"
#include "planner/other_schedules.h"
#include "planner/ranking.h"
#include "planner/schedule_starts.h"
#include "planner/tunings.h"

namespace simrun {
namespace {

constexpr int most_rounds = 8;
constexpr double near_enough_to_try = 1.3, near_enough_to_order = 1.15,
                 near_enough_to_tune = 1.1;  // x its goal
constexpr std::size_t most_tuned = 3, most_ordered = 2;
// What another bucket or order gains must be worth a line of the job.
constexpr double worth_writing = 0.001;
// Half a second of a core for an order.
constexpr std::int64_t most_ordered_passes = 2'000, few_gpus = 64;
constexpr std::int64_t most_tuned_passes = 100'000, most_tuned_passes_of_many_gpus = 25'000;

bool has_kinds(const Refined& search) { return GpuKinds(search.base.job.job.cluster).count() > 1; }
bool goes_on(const Refined& search) { return !search.result.was_stopped && !search.result.best.empty(); }

double goal(const Refined& search, const RankedCandidate& of) {
  return goal_of(search.base.job.plan.minimise, of);
}

std::int64_t passes(const Refined& search, const Candidate& of) {
  return 2 * of.microbatches(search.base.job.job.training.global_batch_size) * of.pipeline *
         of.virtual_stages;
}

}  // namespace

void improve(const Refined& search) {
  for (int round = 0; round < most_rounds && goes_on(search); ++round) {
    const Candidate best = search.result.best.front().candidate;
    // The climb of what is balanced over kinds is add_balanced()'s.
    if (best.is_as_written || (!best.balance.empty() && has_kinds(search))) return;
    search.try_all(balanced_neighbours_of(search.base, best), 0);
    if (!goes_on(search) || search.result.best.front().candidate == best) return;
  }
}

void try_other_schedules(const Refined& search) {
  if (!goes_on(search) || has_kinds(search)) return;
  const double most = near_enough_to_try * goal(search, search.result.best.front());
  search.try_all(other_schedules_of(search.base, search.fitting, most), 0);
}

void try_searched_orders(const Refined& search) {
  const PlanBase& base = search.base;
  if (!goes_on(search) || has_kinds(search) || base.job.job.world_size() > few_gpus) return;
  const double most = near_enough_to_order * goal(search, search.result.best.front());
  std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t>> splits;
  std::vector<Candidate> next;
  const std::size_t every = search.fitting.size();
  std::int64_t left = most_ordered_passes;
  for (const RankedCandidate& start : pipelined_starts(search.fitting, base.job.plan.minimise, most, every)) {
    const Candidate& of = start.candidate;
    if (splits.size() == most_ordered || !splits.emplace(of.tensor, of.context, of.pipeline).second) continue;
    for (Candidate& other : with_searched_orders(base.job.job, base.job.plan, of))
      if ((left -= passes(search, other)) >= 0) next.push_back(std::move(other));
  }
  search.try_all(next, worth_writing);
}

void tune(const Refined& search) {
  if (has_kinds(search)) return;
  const PlanBase& base = search.base;
  std::set<Candidate> tuned;
  std::int64_t left =
      base.job.job.world_size() > few_gpus ? most_tuned_passes_of_many_gpus : most_tuned_passes;
  for (int round = 0; round < most_rounds && goes_on(search); ++round) {
    const double most = near_enough_to_tune * goal(search, search.result.best.front());
    std::vector<Candidate> next;
    for (std::size_t i = 0; i < std::min(most_tuned, search.result.best.size()); ++i) {
      const RankedCandidate& of = search.result.best[i];
      if (goal(search, of) > most || !tuned.insert(of.candidate).second) continue;
      for (Candidate& other : tunings_of(base.job.job, base.job.plan, of.candidate))
        if ((left -= passes(search, of.candidate)) >= 0) next.push_back(std::move(other));
    }
    if (next.empty()) return;
    search.try_all(next, worth_writing);
  }
}

}  // namespace simrun
