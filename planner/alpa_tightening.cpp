#include "planner/alpa_tightening.h"

#include <algorithm>
#include <utility>

#include "planner/candidate.h"
#include "planner/stage_search.h"
#include "sim/in_threads.h"

namespace simrun {

AlpaTightening::AlpaTightening(const std::vector<AlpaVariant>& variants, const AlpaOptions& options,
                               CollectivePrices& collectives, AlpaTrials& trials)
    : variants_(variants),
      options_(options),
      collectives_(collectives),
      trials_(trials),
      schedules_(std::make_unique<RankSchedules>()) {}

unsigned AlpaTightening::threads() const {
  return options_.threads > 0 ? options_.threads : thread_per_processor();
}

const AlpaVariant& AlpaTightening::variant_of(const AlpaPlan& plan) const {
  return *std::ranges::find(variants_, plan.recompute, &AlpaVariant::recompute);
}

std::optional<AlpaPlan> AlpaTightening::searched_again(const AlpaPlan& plan,
                                                       const AlpaOptions& options) const {
  std::optional<AlpaPlan> found =
      StageSearch(variant_of(plan).job, options, point_of(plan), collectives_).best_plan();
  if (!found) return std::nullopt;
  found->recompute = plan.recompute;
  return with_schedule(*found, {plan.schedule, plan.virtual_stages});
}

static double forwards_of(const Job& job) {
  return job.recompute.granularity == RecomputeGranularity::full ? 2 : 1;
}

AlpaPlan AlpaTightening::with_schedule(const AlpaPlan& plan, const RankSchedule& schedule) const {
  return schedules_->with_schedule(plan, schedule, forwards_of(variant_of(plan).job));
}

std::optional<AlpaPlan> AlpaTightening::dealt_evenly(const AlpaPlan& plan,
                                                     const RankSchedule& schedule) const {
  std::vector<std::int64_t> layers;
  for (const StageContent& stage :
       balanced_stages(variant_of(plan).job, plan.pipeline * schedule.virtual_stages))
    layers.push_back(stage.layers);
  if (layers.empty()) return std::nullopt;
  return with_layers(plan, schedule, layers);
}

double AlpaTightening::schedule_ratio(const AlpaPlan& plan, const RankSchedule& schedule) const {
  return schedules_->ratio(plan, schedule, forwards_of(variant_of(plan).job));
}

bool AlpaTightening::nearly_fits(std::size_t at) const {
  constexpr double nearly = 1.1;
  const SimulatedPlan& plan = trials_.outcome().simulated[at];
  return static_cast<double>(plan.peak_bytes) <= nearly * static_cast<double>(plan.limit_bytes);
}

void AlpaTightening::tighten(std::vector<SearchedPlan> tried, std::size_t times) {
  constexpr std::size_t longer = 2;  // x as often, where next to nothing is lacking
  for (std::size_t time = 0; time < longer * times && !trials_.outcome().was_stopped; ++time) {
    std::erase_if(tried, [&](const SearchedPlan& of) {
      return !trials_.is_worth_tightening(of.at) || (time >= times && !nearly_fits(of.at));
    });
    std::vector<std::optional<AlpaPlan>> found(tried.size());
    in_threads(threads(), tried.size(), [&](unsigned, std::size_t i) {
      const SimulatedPlan& plan = trials_.outcome().simulated[tried[i].at];
      tried[i].memory_share *=
          0.98 * static_cast<double>(plan.limit_bytes) / static_cast<double>(plan.peak_bytes);
      AlpaOptions tight = options_;
      tight.memory_share = tried[i].memory_share;
      found[i] = searched_again(trials_.outcome().plans[tried[i].at], tight);
    });
    std::vector<SearchedPlan> next;
    for (std::size_t i = 0; i < tried.size(); ++i) {
      if (!found[i]) continue;
      trials_.simulate({*found[i]}, "searching with less memory");
      if (const std::optional<std::size_t> at = trials_.index_of(*found[i]))
        next.push_back({*at, tried[i].memory_share});
    }
    tried = std::move(next);
  }
}

}  // namespace simrun
