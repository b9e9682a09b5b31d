#pragma once

#include <map>

#include "configs/job.h"
#include "schedules/emit_segments.h"
#include "schedules/op.h"

namespace simrun {

// ZeRO-3 over the passes of one rank in program order: which of them gather a chunk's weights and which free
// them.
//   reshard_after_forward: true    every pass gathers and frees for itself: two gathers per microbatch
//   false                          what a forward pass gathered stays until the chunk's next backward pass,
//                                  as in FSDP2: without a pipeline one gather per microbatch
//   reshard_after_backward: false  gathered before the chunk's first pass, freed behind its last one: one
//                                  gather per step, as torchtitan does under a pipeline
// The gathered weights of a chunk are one copy, whatever number of its microbatches is in flight.
class GatheredWeights {
 public:
  // `passes`: those of the rank.
  GatheredWeights(const OptimizerConfig& optimizer, const RankOps& passes);

  // Of the next pass of a chunk. `stage` and `direction` name the chunk.
  WeightUse next(const Op& op);

 private:
  struct ChunkState {
    int passes_left = 0;
    bool live = false;
  };
  const OptimizerConfig& optimizer_;
  std::map<std::pair<int, Direction>, ChunkState> chunks_;
};

}  // namespace simrun
