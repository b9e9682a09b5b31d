#include "planner/stage_flops.h"

#include <map>
#include <numeric>
#include <utility>

#include "schedules/instruction_flops.h"

namespace simrun {
namespace {

const Segment* forward_of(const Plan& plan, std::size_t stage) {
  for (const Segment& segment : plan.segments)
    if (segment.kind == PassKind::forward && segment.chunk != no_index &&
        std::cmp_equal(plan.chunks[segment.chunk].stage, stage))
      return &segment;
  return nullptr;
}

}  // namespace

std::vector<StageFlops> stage_flops(const Plan& plan, const std::vector<std::int64_t>& layers) {
  std::vector<StageFlops> stages(layers.size());
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const Segment* const segment = forward_of(plan, s);
    std::map<std::int32_t, double> by_layer;
    if (segment != nullptr)
      for (const Instruction& what : segment->instructions)
        (what.layer < 0 ? stages[s].outside : by_layer[what.layer]) += instruction_flops(plan, what);
    double all = 0;
    for (const auto& [layer, flops] : by_layer) all += flops;
    const bool knows_each = std::cmp_equal(by_layer.size(), layers[s]);
    for (const auto& [layer, flops] : by_layer)
      if (knows_each) stages[s].layers.push_back(flops);
    if (!knows_each)
      stages[s].layers.assign(static_cast<std::size_t>(layers[s]), all / static_cast<double>(layers[s]));
  }
  return stages;
}

double mean_layer_flops(const std::vector<StageFlops>& stages) {
  double sum = 0;
  std::size_t count = 0;
  for (const StageFlops& stage : stages) {
    sum = std::accumulate(stage.layers.begin(), stage.layers.end(), sum);
    count += stage.layers.size();
  }
  return count == 0 ? 0 : sum / static_cast<double>(count);
}

}  // namespace simrun
