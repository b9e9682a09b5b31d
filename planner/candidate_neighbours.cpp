#include "planner/candidate_neighbours.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "planner/candidate_variants.h"
#include "planner/other_schedules.h"
#include "planner/tunings.h"

namespace simrun {
namespace {

struct Difference {
  std::size_t choice = 0;
  std::int64_t by = 0;
};

// Nothing where they differ in none or in several choices.
std::optional<Difference> only_difference(const Candidate& a, const Candidate& b) {
  const std::array differences = {
      b.expert - a.expert, b.expert_tensor - a.expert_tensor, b.micro_batch - a.micro_batch,
      std::int64_t{b.zero_stage} - a.zero_stage,
      static_cast<std::int64_t>(b.recompute) - static_cast<std::int64_t>(a.recompute)};
  const bool same_pipeline = a.schedule == b.schedule && a.virtual_stages == b.virtual_stages;
  const auto differ =
      static_cast<std::size_t>(std::ranges::count_if(differences, [](std::int64_t by) { return by != 0; }));
  if (differ + (same_pipeline ? 0 : 1) != 1) return std::nullopt;
  if (!same_pipeline) return Difference{differences.size(), b.virtual_stages - a.virtual_stages};
  for (std::size_t choice = 0; choice < differences.size(); ++choice)
    if (differences[choice] != 0) return Difference{choice, differences[choice]};
  return std::nullopt;
}

}  // namespace

std::vector<Candidate> neighbours_of(const Job& job, const PlanConfig& limits, const Candidate& of) {
  PlanConfig same_ranks = with_schedule_of(limits, of);
  same_ranks.fixed_numbers["tensor_model_parallel_size"] = {of.tensor};
  same_ranks.fixed_numbers["context_parallel_size"] = {of.context};
  same_ranks.fixed_numbers["pipeline_model_parallel_size"] = {of.pipeline};
  // Choice, schedule, and whether it is larger; of experts the size itself.
  using Side = std::tuple<std::size_t, std::string, std::int64_t>;
  std::map<Side, std::pair<std::int64_t, Candidate>> nearest;
  Candidate alike = of;
  alike.overlaps = alike.whole_sequences = false;
  alike.exchange = {};
  for_each_candidate(job, same_ranks, [&](Candidate other) {
    other.exchange = {};
    const std::optional<Difference> difference = only_difference(alike, other);
    if (!difference) return;
    const std::int64_t away = std::abs(difference->by);
    const std::int64_t side = difference->choice == 0 ? other.expert : difference->by > 0 ? 1 : 0;
    const auto [place, is_new] =
        nearest.try_emplace({difference->choice, other.schedule, side}, std::pair(away, other));
    if (!is_new && away < place->second.first) place->second = {away, other};
  });
  std::vector<Candidate> found;
  found.reserve(nearest.size() + 1);
  for (auto& [side, of_side] : nearest) {
    Candidate& next = of_side.second;
    next.whole_sequences = of.whole_sequences;
    next.exchange = of.exchange;
    next.tuning = tuning_under(next.zero_stage, of.tuning);
    found.push_back(of.overlaps ? with_other_overlap(job, limits, next).value_or(next) : std::move(next));
  }
  if (const auto other = with_other_overlap(job, limits, of)) found.push_back(*other);
  for (Candidate& other : variants_of(job, limits, of)) found.push_back(std::move(other));
  std::ranges::sort(found);
  return found;
}

std::vector<Candidate> balanced_neighbours_of(const PlanBase& base, const Candidate& of) {
  std::vector<Candidate> neighbours = neighbours_of(base.job.job, base.job.plan, of);
  for (Candidate& next : neighbours)
    if (next.virtual_stages == of.virtual_stages) next.balance = of.balance;
  return neighbours;
}

std::vector<Candidate> with_other_overlaps(const PlanBase& base, const std::vector<RankedCandidate>& of,
                                           std::size_t first) {
  std::vector<Candidate> overlapped;
  for (std::size_t i = 0; i < std::min(of.size(), first); ++i)
    if (const auto other = with_other_overlap(base.job.job, base.job.plan, of[i].candidate))
      overlapped.push_back(*other);
  return overlapped;
}

}  // namespace simrun
