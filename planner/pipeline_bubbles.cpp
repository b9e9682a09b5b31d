#include "planner/pipeline_bubbles.h"

#include <algorithm>

namespace simrun {

double dualpipe_idle_s(const PartCost& all, double stages) {
  return std::max(all.forward_s + 2 * all.input_s - all.weight_s, 0.0) / stages;
}

double without_idling_s(double microbatches, const std::vector<PartCost>& stages) {
  double longest = 0, down = 0, up = 0, before = 0;
  for (const PartCost& stage : stages) {
    const double own = microbatches * (stage.forward_s + stage.backward_s);
    longest = std::max(longest, down + own + std::max(up - 2 * before * stage.weight_s, 0.0));
    down += stage.forward_s;
    up += stage.input_s;
    ++before;
  }
  return longest;
}

double wave_bubble_s(const Candidate& candidate, const PartCost& all) {
  const auto p = static_cast<double>(candidate.pipeline);
  const double pass_s = all.input_s / (2 * p);
  const bool in_threes = candidate.pipeline % 3 == 0, is_even = candidate.pipeline % 2 == 0;
  if (candidate.schedule == "v_half") return std::max(3 * p - (is_even ? 7 : 4), 1.0) * pass_s;
  if (candidate.schedule == "v_min") return (4 * p - (in_threes ? 7 : 5)) * pass_s;
  if (candidate.schedule == "dualpipe_v") return (p - 1) * dualpipe_idle_s(all, 2 * p);
  return (p - 1) * pass_s;
}

double slots_s(double ranks, const PartCost& all) {
  return 3 * std::max({all.forward_s, all.input_s, all.weight_s}) / ranks;
}

double few_microbatches_s(double ranks, double microbatches, const PartCost& all) {
  return (ranks - 1) / ranks * all.input_s / 2 *
             std::clamp(1 - 2 * (microbatches - ranks) / ranks, 0.0, 1.0) +
         std::max(ranks - microbatches, 0.0) * all.weight_s / ranks;
}

}  // namespace simrun
