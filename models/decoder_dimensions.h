#pragma once

#include "models/graph.h"

namespace simrun {

// Dimensions of a decoder's tensors (models/decoder.h).
struct DecoderDimensions {
  DimensionId batch = 0, sequence = 0, hidden = 0, kv_heads = 0, group = 0, qkv = 0, qk = 0, head_dim = 0,
              ffn = 0, gate = 0, key_sequence = 0, statistics = 0, one = 0;
};

}  // namespace simrun
