#include "planner/alpa_proposals.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "planner/microbatch_sizes.h"
#include "planner/sub_mesh.h"
#include "sim/in_threads.h"

namespace simrun {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();

// Of data-parallel ranks ZeRO-1 takes less memory than ZeRO-0 and as much time. In pipelines ZeRO-2 and 3 are
// looked at where memory asks for them (sharded).
std::vector<int> zero_stages(const AlpaOptions& options, std::int64_t pipeline) {
  const std::vector<std::int64_t>& asked = options.zero_stages;
  std::vector<int> stages;
  for (const int stage : {0, 1, 2, 3})
    if (asked.empty() ? stage == 1 || (stage > 1 && pipeline == 1) : std::ranges::count(asked, stage) > 0)
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

// Seconds of a point's step under the best of schedules: ZB-V's way down the ranks and up again is a third of
// its stages' passes, which are half a rank's (zb_v.h).
double least_seconds(const Job& job, const SearchPoint& point, const StageBound& bound) {
  const std::int64_t steps = job.training.global_batch_size / point.sequences;
  const auto microbatches = static_cast<double>(steps);
  return bound.slowest_s * (1 + static_cast<double>(point.pipeline - 1) / (6 * microbatches));
}

}  // namespace

AlpaProposals::AlpaProposals(const std::vector<AlpaVariant>& variants, const AlpaOptions& options,
                             CollectivePrices& collectives, const PlanProgress& progress)
    : variants_(variants),
      options_(options),
      collectives_(collectives),
      threads_(options.threads > 0 ? options.threads : thread_per_processor()),
      progress_(progress) {
  const auto plainest = std::ranges::find(variants_, RecomputeGranularity::none,
                                          [](const AlpaVariant& of) { return of.job.recompute.granularity; });
  if (plainest != variants_.end()) plainest_ = static_cast<std::size_t>(plainest - variants_.begin());
}

std::vector<AlpaPlan> AlpaProposals::best() {
  hiding_ = points_of_equal_stages(true);
  equal_ = points_of_equal_stages(false);
  BestByVariant equal(variants_, options_);
  search(equal_, equal);
  std::vector<AlpaPlan> plans = equal.plans();
  BestByVariant hidden(variants_, options_,
                       plans.empty() ? never : options_.within * plans.front().estimate_s);
  search(hiding_, hidden);
  for (const std::vector<AlpaPlan>& of : {hidden.plans(), of_unlike_stages(equal)})
    plans.insert(plans.end(), of.begin(), of.end());
  return proposed(std::move(plans));
}

std::vector<AlpaPlan> AlpaProposals::more(double most_s) {
  BestByVariant best(variants_, options_, most_s);
  for (std::vector<BoundedPoint>* points : {&equal_, &hiding_}) search(*points, best);
  return proposed(best.plans());
}

std::vector<AlpaPlan> AlpaProposals::less_busy(double most_s, std::size_t most) {
  constexpr double longest = 1.5;  // x that, under 1F1B
  const auto least = [&](std::size_t i) {
    return least_seconds(variants_[equal_[i].variant].job, equal_[i].point, equal_[i].bound);
  };
  std::vector<AlpaPlan> plans;
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < equal_.size(); ++i)
    if (!equal_[i].is_proposed && equal_[i].point.pipeline > 1) open.push_back(i);
  while (plans.size() < most && goes_on()) {
    std::erase_if(open, [&](std::size_t i) { return least(i) >= most_s; });
    if (open.empty()) break;
    std::ranges::stable_sort(open, {}, least);
    const std::size_t next = open.front();
    if (!equal_[next].is_own) {
      std::vector<BoundedPoint> one{equal_[next]};
      bound(one);
      equal_[next] = one.front();
      continue;
    }
    open.erase(open.begin());
    equal_[next].most_s = longest * most_s;
    if (!equal_[next].plan)
      for (const std::size_t added : found(equal_, {next})) open.push_back(added);
    if (equal_[next].plan) plans.push_back(*equal_[next].plan);
  }
  return proposed(std::move(plans));
}

std::vector<AlpaPlan> AlpaProposals::proposed(std::vector<AlpaPlan> plans) {
  for (const AlpaPlan& plan : plans)
    for (std::vector<BoundedPoint>* points : {&equal_, &hiding_})
      for (BoundedPoint& at : *points)
        if (variants_[at.variant].recompute == plan.recompute && at.point == point_of(plan))
          at.is_proposed = true;
  return plans;
}

bool AlpaProposals::goes_on() {
  was_stopped_ = was_stopped_ || (progress_ && !progress_("searching layouts and stages", 0, 0));
  return !was_stopped_;
}

StageSearch AlpaProposals::search_at(const BoundedPoint& at) const {
  return {variants_[at.variant].job, options_, at.point, collectives_};
}

// Puts the points' own bounds in place: infinite where there are none.
void AlpaProposals::bound(std::vector<BoundedPoint>& points) const {
  in_threads(threads_, points.size(), [&](unsigned, std::size_t i) {
    points[i].bound = search_at(points[i]).lower_bound().value_or(StageBound{never, never});
    points[i].is_own = true;
  });
}

// What their plans are, where these are worth anything.
void AlpaProposals::find_plans(std::vector<BoundedPoint>& points) const {
  in_threads(threads_, points.size(), [&](unsigned, std::size_t i) {
    BoundedPoint& at = points[i];
    StageResult found = search_at(at).search(at.most_s);
    at.fullness = std::max(at.fullness, found.fullness);
    if (!found.plan || found.plan->estimate_s > at.most_s) {  // it need not be searched for as much again
      at.bound.step_s = std::max(at.bound.step_s, std::nextafter(at.most_s, never));
      return;
    }
    found.plan->recompute = variants_[at.variant].recompute;
    at.plan = std::move(found.plan);
  });
}

// In pipelines ZeRO-2 and 3 take less memory and exchange what ZeRO-1 does once a step with every microbatch:
// they are looked at where the fastest stages are nearly too large without, or microbatches are few.
std::optional<AlpaProposals::BoundedPoint> AlpaProposals::sharded(const BoundedPoint& at) const {
  constexpr double nearly_full = 0.8;
  constexpr std::int64_t few = 2;
  const bool may_be = at.point.pipeline > 1 && at.point.zero_stage < 3 && options_.zero_stages.empty();
  const std::int64_t batch = variants_[at.variant].job.training.global_batch_size;
  if (!may_be || (at.fullness < nearly_full && batch > few * at.point.sequences)) return std::nullopt;
  BoundedPoint next{at.variant, at.point, at.bound};
  next.point.zero_stage += 1;
  return next;
}

// Puts the plans of these points in place; which points there are more of now.
std::vector<std::size_t> AlpaProposals::found(std::vector<BoundedPoint>& points,
                                              const std::vector<std::size_t>& at) {
  std::vector<BoundedPoint> searched;
  searched.reserve(at.size());
  for (const std::size_t i : at) searched.push_back(points[i]);
  find_plans(searched);
  std::vector<std::size_t> added;
  for (std::size_t k = 0; k < at.size(); ++k) {
    const bool is_first = points[at[k]].fullness == 0;
    points[at[k]] = searched[k];
    const std::optional<BoundedPoint> next = sharded(searched[k]);
    if (!next || !is_first) continue;
    added.push_back(points.size());
    points.push_back(*next);
  }
  return added;
}

// As many at a time as there are threads, until somebody stops it.
std::vector<AlpaProposals::BoundedPoint> AlpaProposals::bounded_in_turn(std::vector<BoundedPoint> unknown) {
  std::vector<BoundedPoint> bounded;
  for (std::size_t begin = 0; begin < unknown.size() && goes_on(); begin += threads_) {
    const std::size_t end = std::min<std::size_t>(unknown.size(), begin + threads_);
    std::vector<BoundedPoint> some(unknown.begin() + static_cast<std::ptrdiff_t>(begin),
                                   unknown.begin() + static_cast<std::ptrdiff_t>(end));
    bound(some);
    for (BoundedPoint& at : some)
      if (at.bound.step_s < never) bounded.push_back(std::move(at));
  }
  return bounded;
}

// Neither recompute nor what is exchanged makes a step shorter: a point without them bounds the others.
std::vector<AlpaProposals::BoundedPoint> AlpaProposals::points_of_equal_stages(bool hides_data_parallel) {
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
    for (BoundedPoint& at : bounded_in_turn(std::move(unknown))) points.push_back(std::move(at));
    if (!plainest_ || v != *plainest_) continue;
    for (const BoundedPoint& of : points)
      if (of.is_own) bounds_[key_of(of.point)] = of.bound;
  }
  return points;
}

AlpaProposals::PointKey AlpaProposals::key_of(const SearchPoint& point) {
  return {point.pipeline, point.sequences, point.zero_stage};
}

// No more points are looked at than may change the result, which is the same for any number of threads: plans
// are known as they are or not at all.
void AlpaProposals::search(std::vector<BoundedPoint>& points, BestByVariant& best) {
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (points[i].is_proposed) continue;
    if (points[i].plan)
      best.offer(*points[i].plan);
    else
      open.push_back(i);
  }
  while (!open.empty() && goes_on()) {
    std::erase_if(open,
                  [&](std::size_t i) { return points[i].bound.step_s > best.limit(points[i].variant); });
    std::ranges::stable_sort(open, {}, [&](std::size_t i) { return points[i].bound.step_s; });
    const std::size_t next = std::min<std::size_t>(open.size(), threads_);
    std::vector<BoundedPoint> to_bound;
    std::vector<std::size_t> bounded, searched;
    for (std::size_t i = 0; i < next; ++i) {
      BoundedPoint& at = points[open[i]];
      at.most_s = best.limit(at.variant);
      (at.is_own ? searched : bounded).push_back(open[i]);
      if (!at.is_own) to_bound.push_back(at);
    }
    open.erase(open.begin(), open.begin() + static_cast<std::ptrdiff_t>(next));
    bound(to_bound);
    for (std::size_t i = 0; i < bounded.size(); ++i) points[bounded[i]] = to_bound[i];
    open.insert(open.end(), bounded.begin(), bounded.end());
    for (const std::size_t added : found(points, searched)) open.push_back(added);
    for (const std::size_t i : searched)
      if (points[i].plan) best.offer(*points[i].plan);
  }
}

// As near the best of equal stages as these are to one another.
std::vector<AlpaPlan> AlpaProposals::of_unlike_stages(const BestByVariant& equal) {
  constexpr std::size_t tried_microbatches = 3;  // of those with the least bounds
  std::vector<BoundedPoint> tried;
  for (std::size_t v = 0; v < variants_.size(); ++v) {
    const Job& job = variants_[v].job;
    if (!may_have_unlike_stages(job)) continue;
    std::vector<BoundedPoint> points;
    for (const std::int64_t sequences : microbatch_sizes(job, 2, options_.microbatches))
      points.push_back({v, {.sequences = sequences, .zero_stage = 1, .unlike = true}});
    if (!goes_on()) return {};
    bound(points);
    std::ranges::stable_sort(points, {}, [](const BoundedPoint& at) { return at.bound.step_s; });
    points.resize(std::min(points.size(), tried_microbatches));
    for (BoundedPoint& at : points) at.most_s = equal.near(v);
    std::erase_if(points, [](const BoundedPoint& at) {
      return at.bound.step_s > at.most_s || at.bound.step_s == never;
    });
    tried.insert(tried.end(), points.begin(), points.end());
  }
  if (!goes_on()) return {};
  find_plans(tried);
  std::vector<AlpaPlan> plans;
  for (BoundedPoint& at : tried)
    if (at.plan) plans.push_back(std::move(*at.plan));
  return plans;
}

bool AlpaProposals::may_have_unlike_stages(const Job& job) const {
  const bool stages_given = !options_.stage_ends.empty() || options_.mesh || options_.least_stages > 1 ||
                            options_.most_stages < layers_in(job.parallelism.stages) ||
                            !options_.pipelines.empty();
  return !stages_given && std::ranges::count(zero_stages(options_, 2), 1) > 0 && may_be_unlike(job);
}

}  // namespace simrun
