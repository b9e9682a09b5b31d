#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "planner/alpa_search.h"
#include "planner/best_plans.h"
#include "planner/stage_search.h"

namespace simrun {

// The best plans by their estimates, of pipeline size, microbatches, ZeRO stage and recompute together (a
// point) one each; and what else there is, where simulating says that these are not enough.
class AlpaProposals {
 public:
  // All must outlive it.
  AlpaProposals(const std::vector<AlpaVariant>& variants, const AlpaOptions& options,
                CollectivePrices& collectives, const PlanProgress& progress);

  // alpa_plans(). Once.
  std::vector<AlpaPlan> best();

  // Of all other points of equal stages the best, that are estimated to take less than `most_s` under 1F1B.
  std::vector<AlpaPlan> more(double most_s);

  // Likewise those whose slowest stage is busy for less than `most_s`, the least busy first, and under 1F1B
  // no more than half as long again: other schedules may wait less.
  std::vector<AlpaPlan> less_busy(double most_s, std::size_t most);

 private:
  struct BoundedPoint {
    std::size_t variant = 0;
    SearchPoint point;
    StageBound bound = {};
    bool is_own = false;  // the bound is this point's, not that of one that takes no longer
    double most_s = std::numeric_limits<double>::infinity();  // a plan of it that is worth anything
    std::optional<AlpaPlan> plan = {};                        // its best, once that is known
    double fullness = 0;                                      // StageResult, once it was searched
    bool is_proposed = false;
  };
  using PointKey = std::tuple<std::int64_t, std::int64_t, int>;
  static PointKey key_of(const SearchPoint& point);

  bool goes_on();
  StageSearch search_at(const BoundedPoint& at) const;
  void bound(std::vector<BoundedPoint>& points) const;
  std::optional<BoundedPoint> sharded(const BoundedPoint& at) const;
  std::vector<BoundedPoint> points_of_equal_stages(bool hides_data_parallel);
  std::vector<BoundedPoint> bounded_in_turn(std::vector<BoundedPoint> unknown);
  void find_plans(std::vector<BoundedPoint>& points) const;
  std::vector<std::size_t> found(std::vector<BoundedPoint>& points, const std::vector<std::size_t>& at);
  void search(std::vector<BoundedPoint>& points, BestByVariant& best);
  std::vector<AlpaPlan> proposed(std::vector<AlpaPlan> plans);
  std::vector<AlpaPlan> of_unlike_stages(const BestByVariant& equal);
  bool may_have_unlike_stages(const Job& job) const;

  const std::vector<AlpaVariant>& variants_;
  const AlpaOptions& options_;
  CollectivePrices& collectives_;
  unsigned threads_;
  const PlanProgress& progress_;
  std::optional<std::size_t> plainest_;       // the variant without recompute
  std::map<PointKey, StageBound> bounds_;     // of it, the first that were known
  std::vector<BoundedPoint> equal_, hiding_;  // all points of equal stages
  bool was_stopped_ = false;
};

}  // namespace simrun
