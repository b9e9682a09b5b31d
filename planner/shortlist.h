#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "planner/estimate.h"

namespace simrun {

// What a search makes least of.
inline double goal_of(PlanObjective objective, double step_s, double peak_bytes) {
  return objective == PlanObjective::memory ? peak_bytes : step_s;
}

struct EstimatedCandidate {
  Candidate candidate;
  Estimate estimate;
};

// The most promising estimates, at most so many, whatever the order in which they are offered. Estimates of
// one ZeRO stage err alike, so the first few near the best of every stage come first, in turns; all others by
// their goal.
class Shortlist {
 public:
  Shortlist(std::size_t most, PlanObjective objective) : most_(most), objective_(objective) {}

  void offer(const EstimatedCandidate& candidate);
  // Those of every stage, for another list to choose from.
  std::vector<EstimatedCandidate> all_stages();
  std::vector<EstimatedCandidate> take();
  // What may still change take() has no greater step time; infinite where there is room, or where steps are
  // not what counts.
  double most_worth_offering();

 private:
  void sort(std::vector<EstimatedCandidate>& of) const;
  void cut(std::vector<EstimatedCandidate>& of) const;
  double goal(const EstimatedCandidate& of) const {
    return goal_of(objective_, of.estimate.step_s, of.estimate.peak_bytes);
  }

  std::size_t most_;
  PlanObjective objective_;
  std::array<std::vector<EstimatedCandidate>, 4> by_stage_;
};

}  // namespace simrun
