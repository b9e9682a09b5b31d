#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include "planner/search.h"
#include "planner/shortlist.h"

namespace simrun {

// How far below their estimates candidates of a ZeRO stage came out.
class EstimateErrors {
 public:
  void add(const RankedCandidate& of) {
    const Evaluation& found = of.evaluation;
    if (!found.refusal.empty() || of.estimate.step_s <= 0 || of.estimate.peak_bytes <= 0) return;
    OfStage& stage = stages_.at(static_cast<std::size_t>(of.candidate.zero_stage));
    ++stage.known;
    stage.step = std::min(stage.step, found.step_s / of.estimate.step_s);
    stage.peak = std::min(stage.peak, static_cast<double>(found.peak_bytes) / of.estimate.peak_bytes);
  }

  // What a candidate comes to if its estimate errs as much as any before it, and a little more.
  double least(const EstimatedCandidate& of, PlanObjective objective) const {
    const OfStage& stage = stages_.at(static_cast<std::size_t>(of.candidate.zero_stage));
    const bool is_known = stage.known >= enough;
    return goal_of(objective, of.estimate.step_s * (is_known ? little_more * stage.step : unknown),
                   of.estimate.peak_bytes * (is_known ? little_more * stage.peak : unknown));
  }

  // Taken from the front of those that may come to `worst` or less, at most so many; only such are left.
  std::vector<EstimatedCandidate> take(std::vector<EstimatedCandidate>& left, std::size_t most,
                                       PlanObjective objective, double worst) const {
    std::vector<EstimatedCandidate> next, behind;
    for (const EstimatedCandidate& of : left)
      if (least(of, objective) <= worst) (next.size() < most ? next : behind).push_back(of);
    left = std::move(behind);
    return next;
  }

 private:
  static constexpr int enough = 6;
  static constexpr double unknown = 0.9, little_more = 0.98;
  struct OfStage {
    int known = 0;
    double step = 1, peak = 1;  // x the estimate
  };
  std::array<OfStage, 4> stages_ = {};
};

}  // namespace simrun
