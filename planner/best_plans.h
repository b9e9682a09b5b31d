#pragma once

#include <cstddef>
#include <limits>
#include <vector>

#include "planner/alpa_search.h"

namespace simrun {

// The best by their estimates, if they are near the best of all. The order is one of plans that differ, so
// that it does not matter which is offered first.
class BestPlans {
 public:
  // At most so many, and no estimate above most_s.
  BestPlans(std::size_t most, double within, double most_s = std::numeric_limits<double>::infinity());

  // The largest estimate that may be taken.
  double limit() const;
  // The largest that is near the best.
  double near() const;
  void offer(const AlpaPlan& plan);
  const std::vector<AlpaPlan>& plans() const { return plans_; }

 private:
  std::size_t most_;
  double within_, most_s_;
  std::vector<AlpaPlan> plans_;
};

// Of all variants together, and of each the one best.
class BestByVariant {
 public:
  BestByVariant(const std::vector<AlpaVariant>& variants, const AlpaOptions& options,
                double most_s = std::numeric_limits<double>::infinity());

  // The largest estimate that a plan of the variant may have to be among them.
  double limit(std::size_t variant) const;
  // The same, however many there are: other schedules may make more of a plan.
  double near(std::size_t variant) const;
  void offer(const AlpaPlan& plan);
  // The best of all, and behind them of every variant that none of them is of.
  std::vector<AlpaPlan> plans() const;

 private:
  const std::vector<AlpaVariant>& variants_;
  BestPlans best_;
  std::vector<BestPlans> of_;
};

}  // namespace simrun
