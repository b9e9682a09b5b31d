#include "planner/enumerated_candidates.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>

namespace simrun {
namespace {

using Keeps = std::function<bool(const Candidate&)>;

bool is_power_of(std::int64_t base, std::int64_t value) {
  while (value % base == 0) value /= base;
  return value == 1;
}

// From what is left out first.
std::vector<Keeps> coarser_and_coarser(const PlanConfig& limits) {
  const auto is_fixed = [&](const char* key) { return limits.fixed_numbers.contains(key); };
  const std::vector<std::string>& schedules = limits.schedules;
  const bool has_1f1b = schedules.empty() || std::ranges::find(schedules, "1f1b") != schedules.end();
  const std::string schedule = has_1f1b ? "1f1b" : schedules.front();
  const std::int64_t most_virtual = is_fixed("virtual_pipeline_model_parallel_size") ? 0 : 2;
  std::vector<Keeps> keeps{[=](const Candidate& of) {
    return of.schedule.empty() ||
           (of.schedule == schedule && (most_virtual == 0 || of.virtual_stages <= most_virtual));
  }};
  if (limits.recomputes.size() != 1)
    keeps.emplace_back([](const Candidate& of) { return of.recompute != RecomputeGranularity::selective; });
  if (!is_fixed("micro_batch_size"))
    keeps.emplace_back([](const Candidate& of) { return is_power_of(2, of.micro_batch); });
  if (!is_fixed("zero_stage"))
    keeps.emplace_back([](const Candidate& of) {
      return of.data * of.context == 1 || of.zero_stage == 1 || of.zero_stage == 3;
    });
  if (!is_fixed("expert_tensor_parallel_size"))
    keeps.emplace_back([](const Candidate& of) { return of.expert_tensor == 1; });
  if (!is_fixed("micro_batch_size"))
    keeps.emplace_back([](const Candidate& of) { return is_power_of(4, of.micro_batch); });
  if (!is_fixed("expert_model_parallel_size"))
    keeps.emplace_back([](const Candidate& of) { return is_power_of(4, of.expert); });
  return keeps;
}

}  // namespace

EnumeratedCandidates enumerated_candidates(const Job& job, const PlanConfig& limits, std::size_t most,
                                           std::size_t most_of_grid) {
  EnumeratedCandidates found;
  // As many tries as there are grids: memory for what is asked for, however many there are.
  const auto fits = [&](const std::vector<Keeps>& keeps, std::size_t limit) {
    found.all = 0;
    found.chosen.clear();
    std::size_t kept = 0;
    for_each_candidate(job, limits, [&](const Candidate& of) {
      ++found.all;
      if (!std::ranges::all_of(keeps, [&](const Keeps& keep) { return keep(of); })) return;
      if (++kept <= limit) found.chosen.push_back(of);
    });
    return kept <= limit;
  };
  if (fits({}, most)) return found;
  std::vector<Keeps> keeps;
  for (Keeps& next : coarser_and_coarser(limits)) {
    keeps.push_back(std::move(next));
    if (fits(keeps, most_of_grid) && !found.chosen.empty()) return found;
  }
  throw std::invalid_argument(fmt::format(
      "{} candidates of a job that is not estimated, of a coarse grid of which more than {} would be "
      "simulated; fix some sizes in plan.fix, or allow more with plan.evaluations",
      found.all, most_of_grid));
}

}  // namespace simrun
