#pragma once

#include <cstddef>
#include <set>
#include <vector>

#include "planner/alpa_schedules.h"
#include "planner/alpa_tightening.h"

namespace simrun {

// The dynamic program's own schedule is 1F1B. What others make of the stages of a plan, the rules of the
// schedules say nearly, and the simulator exactly: of all that was simulated under 1F1B what is said to be
// faster than the best so far is tried, first what is said to be the fastest.
class AlpaRescheduling {
 public:
  // All must outlive it.
  AlpaRescheduling(const ScheduleLimits& limits, const AlpaOptions& options, AlpaTightening& tightening,
                   AlpaTrials& trials);

  // Of the plans that were simulated since the last time, at most so many.
  void try_others(std::size_t most);

 private:
  struct Try {
    std::size_t at = 0;  // of the plan under 1F1B
    RankSchedule schedule;
    double step_s = 0;        // forecast
    bool is_crowded = false;  // as it stands it will not fit
  };
  std::vector<Try> forecasts();
  Try forecast(std::size_t at, const RankSchedule& schedule);
  void run(const std::vector<Try>& tries);

  const ScheduleLimits& limits_;
  const AlpaOptions& options_;
  AlpaTightening& tightening_;
  AlpaTrials& trials_;
  std::size_t seen_ = 0;  // of the plans
};

}  // namespace simrun
