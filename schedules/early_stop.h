#pragma once

#include "schedules/chunk_code.h"

namespace simrun {

// Takes out of a chunk's backward pass the steps at the end of each recomputed region of which nothing is
// read: PyTorch's checkpoints without use_reentrant stop once all that was saved is there again
// (torch/utils/checkpoint.py, _StopRecomputationError). Of a whole transformer layer that is the last
// product.
void stop_recompute_early(ChunkCode& code);

}  // namespace simrun
