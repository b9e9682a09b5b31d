#pragma once

#include <vector>

#include "schedules/chunk_code.h"

namespace simrun {

// A chunk's backward steps, divided for schedules that run backward-input (I) and backward-weight (W)
// apart. I is what the gradient of the chunk's input needs, and every step that is not for weights alone; W
// is the rest: weight gradients, and the gathers and recomputation that only they read. Step numbers,
// ascending.
//
// `kept_before`: inputs of the chunk that the stage before it, on the same rank, needs too and frees behind
// its own backward-input pass, which may come before this chunk's W: what reads them belongs to I.
struct BackwardSplit {
  std::vector<std::size_t> input, weight;
  std::vector<bool> crosses;  // by value: written in I (or before) and read in W: alive until W
};
BackwardSplit split_backward(const ChunkCode& code, const std::vector<ValueId>& kept_before);

}  // namespace simrun
