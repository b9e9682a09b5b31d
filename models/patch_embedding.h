#pragma once

#include <cstdint>

#include "models/decoder_dimensions.h"
#include "models/graph_builder.h"

namespace simrun {

// Square patches of an image and their embedding (Dosovitskiy et al. 2021, arXiv 2010.11929, section 3.1), a
// convolution whose stride is its size.
struct Patches {
  std::int64_t count = 0;
  std::int64_t pixels = 0;  // of a patch, times channels
  bool bias = true;
};

// Images of the microbatch as rows of patches [batch, patches, pixels], one matrix product, a class token in
// front and learned positions: [batch, sequence, hidden], whose sequence is `count` + 1.
TensorId add_patch_embedding(GraphBuilder& graph, const Patches& patches, const DecoderDimensions& dims);

}  // namespace simrun
