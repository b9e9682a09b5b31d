#include "planner/best_plans.h"

#include <algorithm>
#include <string>
#include <tuple>

namespace simrun {
namespace {

using Key = std::tuple<double, std::int64_t, std::int64_t, int, std::string>;
Key key_of(const AlpaPlan& plan) {
  return {plan.estimate_s, plan.pipeline, plan.microbatches, plan.zero_stage, plan.recompute};
}

}  // namespace

BestPlans::BestPlans(std::size_t most, double within, double most_s)
    : most_(most), within_(within), most_s_(most_s) {}

double BestPlans::limit() const {
  return plans_.size() == most_ ? std::min(near(), plans_.back().estimate_s) : near();
}

double BestPlans::near() const {
  return plans_.empty() ? most_s_ : std::min(most_s_, within_ * plans_.front().estimate_s);
}

void BestPlans::offer(const AlpaPlan& plan) {
  if (plan.estimate_s > limit()) return;
  plans_.insert(std::ranges::upper_bound(plans_, key_of(plan), {}, key_of), plan);
  if (plans_.size() > most_) plans_.pop_back();
  while (plans_.back().estimate_s > limit()) plans_.pop_back();
}

BestByVariant::BestByVariant(const std::vector<AlpaVariant>& variants, const AlpaOptions& options,
                             double most_s)
    : variants_(variants),
      best_(options.plans, options.within, most_s),
      of_(variants.size(), BestPlans(1, 1, most_s)) {}

double BestByVariant::limit(std::size_t variant) const {
  return std::max(best_.limit(), of_[variant].limit());
}

double BestByVariant::near(std::size_t variant) const { return std::max(best_.near(), of_[variant].limit()); }

void BestByVariant::offer(const AlpaPlan& plan) {
  const auto at = std::ranges::find(variants_, plan.recompute, &AlpaVariant::recompute);
  best_.offer(plan);
  of_[static_cast<std::size_t>(at - variants_.begin())].offer(plan);
}

std::vector<AlpaPlan> BestByVariant::plans() const {
  std::vector<AlpaPlan> plans = best_.plans();
  for (const BestPlans& of : of_)
    for (const AlpaPlan& plan : of.plans())
      if (std::ranges::count(best_.plans(), plan.recompute, &AlpaPlan::recompute) == 0) plans.push_back(plan);
  return plans;
}

}  // namespace simrun
