#include "planner/galvatron_search.h"

#include <algorithm>
#include <utility>

#include "planner/galvatron_points.h"
#include "planner/layerwise_search.h"

namespace simrun {
namespace {

constexpr std::size_t alike = 2;  // proposals of one pipeline size, number of microbatches and ZeRO stage

struct BoundedLayerPoint {
  GalvatronPoint point;
  double lower_bound = 0;
};

// The best so far, few of one shape.
class BestPlans {
 public:
  explicit BestPlans(std::size_t most) : most_(most) {}

  void offer(GalvatronPlan plan) {
    if (std::ranges::any_of(plans_, [&](const GalvatronPlan& other) { return are_same(plan, other); }))
      return;
    const auto place = std::ranges::upper_bound(plans_, plan.estimate_s, {}, &GalvatronPlan::estimate_s);
    plans_.insert(place, std::move(plan));
    thin();
  }

  bool is_beaten(double bound) const { return plans_.size() >= most_ && bound >= plans_.back().estimate_s; }
  std::vector<GalvatronPlan> take() { return std::move(plans_); }

 private:
  void thin() {
    for (std::size_t i = 0; i < plans_.size(); ++i) {
      const auto is_alike = [&](const GalvatronPlan& other) {
        return other.point.pipeline == plans_[i].point.pipeline &&
               other.point.sequences == plans_[i].point.sequences &&
               other.point.zero_stage == plans_[i].point.zero_stage;
      };
      const auto before =
          std::count_if(plans_.begin(), plans_.begin() + static_cast<std::ptrdiff_t>(i), is_alike);
      if (std::cmp_less(before, alike)) continue;
      plans_.erase(plans_.begin() + static_cast<std::ptrdiff_t>(i));
      return;
    }
    if (plans_.size() > most_) plans_.pop_back();
  }

  std::size_t most_;
  std::vector<GalvatronPlan> plans_;
};

class ProposalSearch {
 public:
  ProposalSearch(const Job& job, LayerPrices& prices, const GalvatronOptions& options,
                 const PlanProgress& progress)
      : job_(job), prices_(prices), options_(options), progress_(progress) {}

  // The least bounds first, until none can be among the best.
  std::vector<GalvatronPlan> best_of(const std::vector<GalvatronPoint>& points, double over_room) {
    std::vector<BoundedLayerPoint> bounded;
    for (const GalvatronPoint& point : points) {
      if (!goes_on("pricing layers", bounded.size(), points.size())) return {};
      if (const auto bound = LayerwiseSearch(job_, prices_, options_, point).lower_bound())
        bounded.push_back({point, *bound});
    }
    std::ranges::stable_sort(bounded, {}, &BoundedLayerPoint::lower_bound);
    points_ = std::max(points_, static_cast<std::int64_t>(points.size()));
    BestPlans best(options_.plans);
    for (const BoundedLayerPoint& at : bounded) {
      if (best.is_beaten(at.lower_bound) || !goes_on("searching", 0, 0)) break;
      auto plan = LayerwiseSearch(job_, prices_, options_, at.point).best_plan(-over_room);
      if (!plan) continue;
      ++feasible_;
      best.offer(std::move(*plan));
    }
    return best.take();
  }

  std::int64_t points() const { return points_; }
  std::int64_t feasible() const { return feasible_; }

 private:
  bool goes_on(const char* phase, std::size_t done, std::size_t all) const {
    return !progress_ || progress_(phase, static_cast<std::int64_t>(done), static_cast<std::int64_t>(all));
  }

  const Job& job_;
  LayerPrices& prices_;
  const GalvatronOptions& options_;
  const PlanProgress& progress_;
  std::int64_t points_ = 0, feasible_ = 0;
};

}  // namespace

bool GalvatronPlan::is_uniform() const {
  return std::ranges::all_of(layers, [&](const LayerStrategy& of) { return of == layers.front(); }) &&
         point.ends == layers.front().split;
}

bool are_same(const GalvatronPlan& a, const GalvatronPlan& b) {
  GalvatronPoint of_a = a.point, of_b = b.point;
  of_a.spreads_sharded = of_b.spreads_sharded;
  of_a.only = of_b.only;
  const auto ends_at = [](const GalvatronStage& stage) { return stage.last_layer; };
  return of_a == of_b && a.layers == b.layers && std::ranges::equal(a.stages, b.stages, {}, ends_at, ends_at);
}

GalvatronProposals galvatron_plans(const Job& job, LayerPrices& prices, const GalvatronOptions& options,
                                   const PlanProgress& progress) {
  ProposalSearch search(job, prices, options, progress);
  GalvatronProposals proposals;
  for (const double over_room : {0.0, options.over_room}) {
    for (GalvatronPlan& plan : search.best_of(uniform_points(job, options), over_room))
      proposals.uniform.push_back(std::move(plan));
    for (GalvatronPlan& plan : search.best_of(mixed_points(job, options), over_room))
      proposals.mixed.push_back(std::move(plan));
  }
  proposals.points = search.points();
  proposals.feasible = search.feasible();
  return proposals;
}

}  // namespace simrun
