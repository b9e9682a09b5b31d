#pragma once

#include "configs/job.h"
#include "models/conv_layers.h"

namespace simrun {

// The microbatch's images [batch, height, width, channels] in the job's precision: data, of which no gradient
// is wanted. `batch` is of all data-parallel ranks, as in models/decoder.h.
FeatureMap add_images(GraphBuilder& graph, const Job& job, const ImageConfig& image);

}  // namespace simrun
