#include "schedules/early_stop.h"

#include <algorithm>
#include <set>
#include <utility>

namespace simrun {

void stop_recompute_early(ChunkCode& code) {
  std::set<ValueId> read(code.input_gradients.begin(), code.input_gradients.end());
  std::set<std::int32_t> reached;  // regions of which a step is needed
  std::vector<CodeStep> kept;
  for (auto step = code.backward.rbegin(); step != code.backward.rend(); ++step) {
    if (step->phase == Phase::recompute && step->region >= 0 && !reached.contains(step->region)) {
      const bool is_read =
          std::ranges::any_of(step->outputs, [&](ValueId value) { return read.contains(value); });
      if (!is_read) continue;
      reached.insert(step->region);
    }
    read.insert(step->inputs.begin(), step->inputs.end());
    kept.push_back(std::move(*step));
  }
  std::ranges::reverse(kept);
  code.backward = std::move(kept);
}

}  // namespace simrun
