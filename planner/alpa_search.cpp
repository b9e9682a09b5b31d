#include "planner/alpa_search.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "planner/microbatch_sizes.h"
#include "planner/stage_search.h"
#include "planner/sub_mesh.h"
#include "planner/unsearched.h"
#include "sim/in_threads.h"

namespace simrun {
namespace {

// Of data-parallel ranks ZeRO-1 takes less memory than ZeRO-0 and as much time.
std::vector<int> zero_stages(const AlpaOptions& options, std::int64_t pipeline) {
  const std::vector<std::int64_t>& asked = options.zero_stages;
  std::vector<int> stages;
  for (const int stage : {0, 1, 2, 3})
    if ((stage <= 1 || pipeline == 1) && (asked.empty() ? stage > 0 : std::ranges::count(asked, stage) > 0))
      stages.push_back(stage);
  return stages;
}

bool is_asked_for(const AlpaOptions& options, std::int64_t pipeline) {
  if (pipeline < options.least_stages || pipeline > options.most_stages) return false;
  if (!options.stage_ends.empty() && std::cmp_not_equal(pipeline, options.stage_ends.size())) return false;
  return options.pipelines.empty() || std::ranges::count(options.pipelines, pipeline) > 0;
}

std::vector<SearchPoint> points_of(const Job& job, const AlpaOptions& options, bool hides_data_parallel) {
  const std::int64_t layers = layers_in(job.parallelism.stages);
  std::vector<SearchPoint> points;
  for (const std::int64_t pipeline : divisors_of(job.world_size())) {
    if (pipeline > layers || !is_asked_for(options, pipeline) ||
        !is_sub_mesh(job.cluster, job.world_size() / pipeline))
      continue;
    for (const int zero_stage : zero_stages(options, pipeline)) {
      // What ZeRO-3 gathers is hidden, and what is reduced if the job says so.
      if (hides_data_parallel && zero_stage < 3 && !job.optimizer.overlap_grad_reduce) continue;
      for (const std::int64_t sequences : microbatch_sizes(job, pipeline, options.microbatches))
        points.push_back({pipeline, sequences, zero_stage, hides_data_parallel});
    }
  }
  return points;
}

// The best by their estimates, if they are near the best of all. The order is one of plans that differ, so
// that it does not matter which is offered first.
class BestPlans {
 public:
  BestPlans(std::size_t most, double within) : most_(most), within_(within) {}

  // The largest estimate that may be taken.
  double limit() const {
    return plans_.size() == most_ ? std::min(near(), plans_.back().estimate_s) : near();
  }
  // The largest that is near the best.
  double near() const {
    return plans_.empty() ? std::numeric_limits<double>::infinity() : within_ * plans_.front().estimate_s;
  }
  void offer(const AlpaPlan& plan) {
    plans_.insert(std::ranges::upper_bound(plans_, key_of(plan), {}, key_of), plan);
    if (plans_.size() > most_) plans_.pop_back();
    while (plans_.back().estimate_s > limit()) plans_.pop_back();
  }
  const std::vector<AlpaPlan>& plans() const { return plans_; }

 private:
  using Key = std::tuple<double, std::int64_t, std::int64_t, int, std::string>;
  static Key key_of(const AlpaPlan& plan) {
    return {plan.estimate_s, plan.pipeline, plan.microbatches, plan.zero_stage, plan.recompute};
  }

  std::size_t most_;
  double within_;
  std::vector<AlpaPlan> plans_;
};

// Of all variants together, and of each the one best.
class BestByVariant {
 public:
  BestByVariant(const std::vector<AlpaVariant>& variants, const AlpaOptions& options)
      : variants_(variants), best_(options.plans, options.within), of_(variants.size(), BestPlans(1, 1)) {}

  // The largest estimate that a plan of the variant may have to be among them.
  double limit(std::size_t variant) const { return std::max(best_.limit(), of_[variant].limit()); }
  // The same, however many there are: other schedules may make more of a plan.
  double near(std::size_t variant) const { return std::max(best_.near(), of_[variant].limit()); }
  void offer(const AlpaPlan& plan) {
    const auto at = std::ranges::find(variants_, plan.recompute, &AlpaVariant::recompute);
    best_.offer(plan);
    of_[static_cast<std::size_t>(at - variants_.begin())].offer(plan);
  }
  // The best of all, and behind them of every variant that none of them is of.
  std::vector<AlpaPlan> plans() const {
    std::vector<AlpaPlan> plans = best_.plans();
    for (const BestPlans& of : of_)
      for (const AlpaPlan& plan : of.plans())
        if (std::ranges::count(best_.plans(), plan.recompute, &AlpaPlan::recompute) == 0)
          plans.push_back(plan);
    return plans;
  }

 private:
  const std::vector<AlpaVariant>& variants_;
  BestPlans best_;
  std::vector<BestPlans> of_;
};

class Proposals {
 public:
  Proposals(const std::vector<AlpaVariant>& variants, const AlpaOptions& options,
            CollectivePrices& collectives, const PlanProgress& progress)
      : variants_(variants),
        options_(options),
        collectives_(collectives),
        threads_(options.threads > 0 ? options.threads : thread_per_processor()),
        progress_(progress) {
    const auto plainest = std::ranges::find(variants_, RecomputeGranularity::none, [](const AlpaVariant& of) {
      return of.job.recompute.granularity;
    });
    if (plainest != variants_.end()) plainest_ = static_cast<std::size_t>(plainest - variants_.begin());
  }

  std::vector<AlpaPlan> all() {
    std::vector<BoundedPoint> hiding = points_of_equal_stages(true);
    const BestByVariant equal = best_at(points_of_equal_stages(false));
    std::vector<AlpaPlan> plans = equal.plans();
    if (!plans.empty())
      std::erase_if(hiding, [&](const BoundedPoint& at) {
        return at.lower_bound > options_.within * plans.front().estimate_s;
      });
    std::vector<AlpaPlan> hidden = best_at(std::move(hiding)).plans(), unlike = of_unlike_stages(equal);
    for (std::vector<AlpaPlan>* of : {&hidden, &unlike})
      for (AlpaPlan& plan : *of) plans.push_back(std::move(plan));
    return plans;
  }

 private:
  static constexpr std::size_t tried_microbatches = 3;  // with unlike stages, of those with the least bounds

  struct BoundedPoint {
    std::size_t variant = 0;
    SearchPoint point;
    double lower_bound = 0;
    bool is_own = false;  // the bound is this point's, not that of one that takes no longer
    double most_s = std::numeric_limits<double>::infinity();  // a plan of it that is worth anything
  };

  bool goes_on() {
    was_stopped_ = was_stopped_ || (progress_ && !progress_("searching layouts and stages", 0, 0));
    return !was_stopped_;
  }

  StageSearch search_at(const BoundedPoint& at) const {
    return {variants_[at.variant].job, options_, at.point, collectives_};
  }

  // Puts the points' own bounds in place; without those that have none.
  void bound(std::vector<BoundedPoint>& points) const {
    std::vector<std::optional<double>> bounds(points.size());
    in_threads(threads_, points.size(),
               [&](unsigned, std::size_t i) { bounds[i] = search_at(points[i]).lower_bound(); });
    std::vector<BoundedPoint> found;
    for (std::size_t i = 0; i < points.size(); ++i)
      if (bounds[i]) found.push_back({points[i].variant, points[i].point, *bounds[i], true});
    points = std::move(found);
  }

  std::vector<AlpaPlan> best_plans(const std::vector<BoundedPoint>& points) const {
    std::vector<std::optional<AlpaPlan>> plans(points.size());
    in_threads(threads_, points.size(), [&](unsigned, std::size_t i) {
      plans[i] = search_at(points[i]).best_plan(points[i].most_s);
      if (plans[i]) plans[i]->recompute = variants_[points[i].variant].recompute;
    });
    std::vector<AlpaPlan> found;
    for (std::optional<AlpaPlan>& plan : plans)
      if (plan) found.push_back(std::move(*plan));
    return found;
  }

  // Neither recompute nor what is exchanged makes a step shorter: a point without them bounds the others.
  std::vector<BoundedPoint> points_of_equal_stages(bool hides_data_parallel) {
    std::vector<BoundedPoint> points;
    std::vector<std::size_t> order(variants_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    if (plainest_) std::swap(order.front(), order[*plainest_]);
    for (const std::size_t v : order) {
      std::vector<BoundedPoint> unknown;
      for (const SearchPoint& point : points_of(variants_[v].job, options_, hides_data_parallel)) {
        const auto known = bounds_.find(key_of(point));
        if (known == bounds_.end())
          unknown.push_back({v, point});
        else
          points.push_back({v, point, known->second});
      }
      for (std::size_t begin = 0; begin < unknown.size() && goes_on(); begin += threads_) {
        const std::size_t end = std::min<std::size_t>(unknown.size(), begin + threads_);
        std::vector<BoundedPoint> some(unknown.begin() + static_cast<std::ptrdiff_t>(begin),
                                       unknown.begin() + static_cast<std::ptrdiff_t>(end));
        bound(some);
        points.insert(points.end(), some.begin(), some.end());
      }
      if (!plainest_ || v != *plainest_) continue;
      for (const BoundedPoint& of : points)
        if (of.is_own) bounds_[key_of(of.point)] = of.lower_bound;
    }
    return points;
  }

  using PointKey = std::tuple<std::int64_t, std::int64_t, int>;
  static PointKey key_of(const SearchPoint& point) {
    return {point.pipeline, point.sequences, point.zero_stage};
  }

  // No more points are looked at than may change the result, which is the same for any number of threads.
  BestByVariant best_at(std::vector<BoundedPoint> left) {
    BestByVariant best(variants_, options_);
    while (!left.empty() && goes_on()) {
      std::erase_if(left, [&](const BoundedPoint& at) { return at.lower_bound > best.limit(at.variant); });
      std::ranges::stable_sort(left, {}, &BoundedPoint::lower_bound);
      const std::size_t next = std::min<std::size_t>(left.size(), threads_);
      std::vector<BoundedPoint> to_bound, to_search;
      for (std::size_t i = 0; i < next; ++i) {
        left[i].most_s = best.limit(left[i].variant);
        (left[i].is_own ? to_search : to_bound).push_back(left[i]);
      }
      left.erase(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(next));
      bound(to_bound);
      left.insert(left.end(), to_bound.begin(), to_bound.end());
      for (const AlpaPlan& plan : best_plans(to_search)) best.offer(plan);
    }
    return best;
  }

  // As near the best of equal stages as these are to one another.
  std::vector<AlpaPlan> of_unlike_stages(const BestByVariant& equal) {
    std::vector<BoundedPoint> tried;
    for (std::size_t v = 0; v < variants_.size(); ++v) {
      const Job& job = variants_[v].job;
      if (!may_have_unlike_stages(job)) continue;
      std::vector<BoundedPoint> points;
      for (const std::int64_t sequences : microbatch_sizes(job, 2, options_.microbatches))
        points.push_back({v, {.sequences = sequences, .zero_stage = 1, .unlike = true}});
      if (!goes_on()) return {};
      bound(points);
      std::ranges::stable_sort(points, {}, &BoundedPoint::lower_bound);
      points.resize(std::min(points.size(), tried_microbatches));
      for (BoundedPoint& at : points) at.most_s = equal.near(v);
      std::erase_if(points, [](const BoundedPoint& at) { return at.lower_bound > at.most_s; });
      tried.insert(tried.end(), points.begin(), points.end());
    }
    return goes_on() ? best_plans(tried) : std::vector<AlpaPlan>{};
  }

  bool may_have_unlike_stages(const Job& job) const {
    const bool stages_given = !options_.stage_ends.empty() || options_.mesh || options_.least_stages > 1 ||
                              options_.most_stages < layers_in(job.parallelism.stages) ||
                              !options_.pipelines.empty();
    return !stages_given && std::ranges::count(zero_stages(options_, 2), 1) > 0 && may_be_unlike(job);
  }

  const std::vector<AlpaVariant>& variants_;
  const AlpaOptions& options_;
  CollectivePrices& collectives_;
  unsigned threads_;
  const PlanProgress& progress_;
  std::optional<std::size_t> plainest_;  // the variant without recompute
  std::map<PointKey, double> bounds_;    // of it, the first that were known
  bool was_stopped_ = false;
};

}  // namespace

std::vector<AlpaPlan> alpa_plans(const std::vector<AlpaVariant>& variants, const AlpaOptions& options,
                                 CollectivePrices& collectives, const PlanProgress& progress) {
  for (const AlpaVariant& variant : variants) require_searched(unsearched_by_alpa(variant.job));
  return Proposals(variants, options, collectives, progress).all();
}

std::vector<AlpaPlan> alpa_plans(const Job& job, const AlpaOptions& options) {
  CollectivePrices collectives(job.cluster);
  return alpa_plans({{"", job}}, options, collectives, {});
}

}  // namespace simrun
