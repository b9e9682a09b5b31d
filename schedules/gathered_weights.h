#pragma once

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

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
// A chunk that is frozen, and so is all before it, has no backward passes: its forward passes gather and
// free. The gathered weights of a chunk are one copy, whatever number of its microbatches is in flight. A
// forward and a backward pass of one chunk that overlap each other read it at the same time, from both ends:
// it is there before the pair and stays behind it.
class GatheredWeights {
 public:
  // `passes`: those of the rank that do anything.
  GatheredWeights(const OptimizerConfig& optimizer, const RankOps& passes);

  // Of the next pass of a chunk. `stage` and `direction` name the chunk.
  WeightUse next(const Op& op);

 private:
  struct ChunkState {
    std::vector<bool> overlaps_itself;  // by pass, in program order
    std::size_t done = 0;               // passes
    bool goes_back = false;             // some are backward passes,
    bool passes_on = false;             // some of them backward-input ones
    bool live = false;
  };
  const OptimizerConfig& optimizer_;
  std::map<std::pair<int, Direction>, ChunkState> chunks_;
};

}  // namespace simrun
