#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "planner/alpa_schedules.h"
#include "planner/alpa_search.h"
#include "planner/alpa_trials.h"

namespace simrun {

// A plan that was simulated, and the share of the memory that it was searched with.
struct SearchedPlan {
  std::size_t at = 0;
  double memory_share = 0;
};

// Searching again where plans stand: for less memory, or for the microbatches that another schedule has in
// flight.
class AlpaTightening {
 public:
  // All must outlive it; `options` may change between calls.
  AlpaTightening(const std::vector<AlpaVariant>& variants, const AlpaOptions& options,
                 CollectivePrices& collectives, AlpaTrials& trials);

  const AlpaVariant& variant_of(const AlpaPlan& plan) const;

  // The best plan of its pipeline size, microbatches, ZeRO stage, recompute and schedule.
  std::optional<AlpaPlan> searched_again(const AlpaPlan& plan, const AlpaOptions& options) const;

  // What does not fit and is faster than the best so far is searched again with as much less memory as the
  // simulator says: so often at most, or twice as often where next to nothing is lacking.
  void tighten(std::vector<SearchedPlan> tried, std::size_t times);

  // Of its stages under 1F1B.
  AlpaPlan with_schedule(const AlpaPlan& plan, const RankSchedule& schedule) const;
  // Likewise, each stage with as many layers; nothing where there are too few.
  std::optional<AlpaPlan> dealt_evenly(const AlpaPlan& plan, const RankSchedule& schedule) const;
  // RankSchedules::ratio
  double schedule_ratio(const AlpaPlan& plan, const RankSchedule& schedule) const;

  unsigned threads() const;

 private:
  bool nearly_fits(std::size_t at) const;

  const std::vector<AlpaVariant>& variants_;
  const AlpaOptions& options_;
  CollectivePrices& collectives_;
  AlpaTrials& trials_;
  std::unique_ptr<RankSchedules> schedules_;
};

}  // namespace simrun
