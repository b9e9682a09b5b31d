#include "schedules/gathered_weights.h"

namespace simrun {

GatheredWeights::GatheredWeights(const OptimizerConfig& optimizer, const RankOps& passes)
    : optimizer_(optimizer) {
  const auto is_pair = [](const Op& forward, const Op& backward) {
    return forward.overlaps_next && forward.stage == backward.stage &&
           forward.direction == backward.direction;
  };
  for (std::size_t i = 0; i < passes.size(); ++i) {
    ChunkState& chunk = chunks_[{passes[i].stage, passes[i].direction}];
    chunk.overlaps_itself.push_back((i + 1 < passes.size() && is_pair(passes[i], passes[i + 1])) ||
                                    (i > 0 && is_pair(passes[i - 1], passes[i])));
    chunk.goes_back |= passes[i].kind != OpKind::forward;
    chunk.passes_on |= passes[i].kind == OpKind::backward_input;
  }
}

WeightUse GatheredWeights::next(const Op& op) {
  if (optimizer_.reshard_after_forward) return {};
  ChunkState& chunk = chunks_[{op.stage, op.direction}];
  WeightUse use{!chunk.live, true};
  const std::size_t pass = chunk.done++;
  const bool is_last = chunk.done == chunk.overlaps_itself.size();
  const bool is_shared = chunk.overlaps_itself[pass] || (!is_last && chunk.overlaps_itself[pass + 1]);
  // What a later microbatch's forward pass gathered is freed by the pass that carries its gradients back.
  const bool leaves_to_next = (op.kind == OpKind::forward && chunk.goes_back) ||
                              (op.kind == OpKind::backward_weight && chunk.passes_on && chunk.live);
  if (!optimizer_.reshard_after_backward)
    use.releases = is_last;
  else if (leaves_to_next || is_shared)
    use.releases = false;
  chunk.live = !use.releases;
  return use;
}

}  // namespace simrun
