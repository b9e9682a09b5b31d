#include "schedules/gathered_weights.h"

namespace simrun {

GatheredWeights::GatheredWeights(const OptimizerConfig& optimizer, const RankOps& passes)
    : optimizer_(optimizer) {
  for (const Op& op : passes) ++chunks_[{op.stage, op.direction}].passes_left;
}

WeightUse GatheredWeights::next(const Op& op) {
  if (optimizer_.reshard_after_forward) return {};
  ChunkState& chunk = chunks_[{op.stage, op.direction}];
  WeightUse use{!chunk.live, true};
  const bool is_last = --chunk.passes_left == 0;
  if (!optimizer_.reshard_after_backward)
    use.releases = is_last;
  else if (op.kind == OpKind::forward || (op.kind == OpKind::backward_weight && chunk.live))
    use.releases = false;  // what a later microbatch's forward pass gathered is freed by its backward pass
  chunk.live = !use.releases;
  return use;
}

}  // namespace simrun
