#include "planner/enumerated_candidates.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>

namespace simrun {
namespace {

// A candidate, and the one before it, if there was one.
using Keeps = std::function<bool(const Candidate&, const std::optional<Candidate>&)>;

bool is_power_of(std::int64_t base, std::int64_t value) {
  while (value % base == 0) value /= base;
  return value == 1;
}

// Schedules are what for_each_candidate changes first.
bool is_first_schedule(const Candidate& of, const std::optional<Candidate>& before) {
  if (!before) return true;
  Candidate alike = of;
  alike.schedule = before->schedule;
  alike.virtual_stages = before->virtual_stages;
  return alike != *before;
}

// Of the ranks of a stage and the experts of a layer as many as divide both.
bool has_most_expert_ranks(const Job& job, const Candidate& of) {
  const std::int64_t ranks = of.tensor * of.context * of.data / of.expert_tensor;
  return of.expert == std::gcd(std::max<std::int64_t>(job.model.experts.count, 1), ranks);
}

// From what is left out first. What is fixed has no other to be kept.
std::vector<Keeps> coarser_and_coarser(const Job& job, const PlanConfig& limits) {
  const auto is_fixed = [&](const char* key) { return limits.fixed_numbers.contains(key); };
  const bool may_recompute_all =
      limits.recomputes.empty() || std::ranges::find(limits.recomputes, "full") != limits.recomputes.end();
  const int written = job.optimizer.zero_stage;
  const bool micro_is_open = !is_fixed("micro_batch_size");
  const bool experts_are_open = !is_fixed("expert_model_parallel_size");
  std::vector<Keeps> keeps{is_first_schedule};
  const auto keep = [&](bool is_open, std::function<bool(const Candidate&)> of) {
    if (is_open)
      keeps.emplace_back([of = std::move(of)](const Candidate& one, const auto&) { return of(one); });
  };
  keep(may_recompute_all,
       [](const Candidate& of) { return of.recompute != RecomputeGranularity::selective; });
  keep(micro_is_open, [](const Candidate& of) { return is_power_of(2, of.micro_batch); });
  keep(!is_fixed("zero_stage"), [=](const Candidate& of) {
    return of.data * of.context == 1 || of.zero_stage % 2 == 1 || of.zero_stage == written;
  });
  keep(!is_fixed("expert_tensor_parallel_size"), [](const Candidate& of) { return of.expert_tensor == 1; });
  keep(micro_is_open, [](const Candidate& of) { return is_power_of(4, of.micro_batch); });
  keep(experts_are_open,
       [&job](const Candidate& of) { return is_power_of(4, of.expert) || has_most_expert_ranks(job, of); });
  keep(micro_is_open, [](const Candidate& of) { return of.micro_batch == 1; });
  keep(experts_are_open, [&job](const Candidate& of) { return has_most_expert_ranks(job, of); });
  return keeps;
}

struct GridChoice {
  EnumeratedCandidates found;
  std::size_t kept = 0;  // by all, of which every step-th was chosen
};

GridChoice choose(const Job& job, const PlanConfig& limits, const std::vector<Keeps>& keeps, std::size_t step,
                  std::size_t most) {
  GridChoice choice;
  std::optional<Candidate> before;
  for_each_candidate(job, limits, [&](const Candidate& of) {
    ++choice.found.all;
    const bool is_kept = std::ranges::all_of(keeps, [&](const Keeps& keep) { return keep(of, before); });
    before = of;
    if (is_kept && choice.kept++ % step == 0 && choice.found.chosen.size() < most)
      choice.found.chosen.push_back(of);
  });
  return choice;
}

}  // namespace

EnumeratedCandidates enumerated_candidates(const Job& job, const PlanConfig& limits, std::size_t most,
                                           std::size_t most_of_grid) {
  GridChoice choice = choose(job, limits, {}, 1, most);
  if (choice.kept <= most) return choice.found;
  std::vector<Keeps> keeps;
  for (Keeps& next : coarser_and_coarser(job, limits)) {
    keeps.push_back(std::move(next));
    choice = choose(job, limits, keeps, 1, most_of_grid);
    if (choice.kept <= most_of_grid) return choice.found;
  }
  return choose(job, limits, keeps, (choice.kept + most_of_grid - 1) / most_of_grid, most_of_grid).found;
}

}  // namespace simrun
