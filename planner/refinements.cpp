#include "planner/refinements.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "configs/node_groups.h"
#include "planner/candidate_neighbours.h"
#include "planner/climb_starts.h"
#include "planner/moved_layers.h"
#include "planner/other_schedules.h"
#include "planner/ranking.h"
#include "planner/schedule_starts.h"
#include "planner/tunings.h"

namespace simrun {
namespace {

constexpr int most_rounds = 8;
// x the best's goal.
constexpr double near_enough_to_try = 1.3, near_enough_to_order = 1.15, near_enough = 1.1;
constexpr std::size_t most_moved = 4, moves_at_once = 12, most_tuned = 4, most_ordered = 2;
// What another bucket or order gains must be worth a line of the job.
constexpr double worth_writing = 0.001;
// Half a second of a core for an order.
constexpr std::int64_t most_ordered_passes = 2'000;
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

Newcomers better_than_best(const Refined& search, double least_gain) {
  Newcomers next{search.fitting.size(), goal(search, search.result.best.front())};
  if (least_gain > 0) next.to_beat_shared = (1 - least_gain) * next.to_beat;
  return next;
}

// The best of some splits, schedules and ZeRO stages, which have other things to tune.
std::vector<RankedCandidate> starts_to_tune(const Refined& search) {
  std::vector<RankedCandidate> fitting = search.fitting;
  sort_by_goal(fitting, search.base.job.plan.minimise);
  const double most = near_enough * goal(search, search.result.best.front());
  std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t, std::string, int>> kinds;
  std::vector<RankedCandidate> starts;
  for (const RankedCandidate& one : fitting) {
    const Candidate& of = one.candidate;
    if (starts.size() == most_tuned || goal(search, one) > most) break;
    if (kinds.emplace(of.tensor, of.context, of.pipeline, of.schedule, of.zero_stage).second)
      starts.push_back(one);
  }
  return starts;
}

// From each start to the best of its neighbours, as long as that gains so much: where the climbs end.
std::set<Candidate> ends_of_climbs(const Refined& search, const std::vector<RankedCandidate>& starts,
                                   const std::function<std::vector<Candidate>(const Candidate&)>& neighbours,
                                   double least_gain) {
  std::set<Candidate> ends;
  for (RankedCandidate at : starts) {
    for (int round = 0; round < most_rounds && goes_on(search); ++round) {
      const std::size_t before = search.fitting.size();
      search.simulate(neighbours(at.candidate));
      double to_beat = (1 - least_gain) * goal(search, at);
      bool is_better = false;
      for (std::size_t i = before; i < search.fitting.size(); ++i) {
        if (goal(search, search.fitting[i]) >= to_beat) continue;
        at = search.fitting[i];
        to_beat = goal(search, at);
        is_better = true;
      }
      if (!is_better) break;
    }
    ends.insert(at.candidate);
  }
  return ends;
}

}  // namespace

void try_all(const Refined& search, const std::vector<Candidate>& next) {
  const Newcomers newcomers = better_than_best(search, 0);
  search.simulate(next);
  search.place(newcomers);
}

void improve(const Refined& search) {
  for (int round = 0; round < most_rounds && goes_on(search); ++round) {
    const Candidate best = search.result.best.front().candidate;
    // The climb of what is balanced over kinds is add_balanced()'s.
    if (best.is_as_written || (!best.balance.empty() && has_kinds(search))) return;
    try_all(search, balanced_neighbours_of(search.base, best));
    if (!goes_on(search) || search.result.best.front().candidate == best) return;
  }
}

void try_other_schedules(const Refined& search) {
  if (!goes_on(search) || has_kinds(search)) return;
  const double most = near_enough_to_try * goal(search, search.result.best.front());
  try_all(search, other_schedules_of(search.base, search.fitting, most));
}

void move_layers(const Refined& search) {
  if (!goes_on(search) || has_kinds(search)) return;
  const PlanConfig& limits = search.base.job.plan;
  MovedLayers moved(search.base);
  const auto asked = static_cast<std::size_t>(limits.best);
  Newcomers newcomers{search.fitting.size(), std::numeric_limits<double>::infinity()};
  if (search.result.best.size() >= asked) newcomers.to_beat = goal(search, search.result.best[asked - 1]);
  const double most = near_enough * goal(search, search.result.best.front());
  newcomers.only = ends_of_climbs(
      search, pipelined_starts(search.fitting, limits.minimise, most, most_moved),
      [&](const Candidate& of) { return moved.of(of, moves_at_once); }, 0);
  search.place(newcomers);
}

void tune(const Refined& search) {
  if (!goes_on(search) || has_kinds(search)) return;
  const PlanBase& base = search.base;
  std::int64_t left =
      base.job.job.world_size() > few_gpus ? most_tuned_passes_of_many_gpus : most_tuned_passes;
  Newcomers newcomers = better_than_best(search, worth_writing);
  newcomers.only = ends_of_climbs(
      search, starts_to_tune(search),
      [&](const Candidate& at) {
        std::vector<Candidate> next = tunings_of(base.job.job, base.job.plan, at);
        std::erase_if(next, [&](const Candidate& of) { return (left -= passes(search, of)) < 0; });
        return next;
      },
      worth_writing);
  search.place(newcomers);
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
  const Newcomers newcomers = better_than_best(search, worth_writing);
  search.simulate(next);
  search.place(newcomers);
}

}  // namespace simrun
