#pragma once

#include "configs/job.h"
#include "models/graph.h"

namespace simrun {

// The forward graph of ViT (Dosovitskiy et al. 2021, arXiv 2010.11929, section 3.1): patches as rows of one
// matrix product (a convolution whose stride is its size), a class token in front, learned positions,
// pre-norm layers that attend to both sides, a norm, and a classifier of the class token.
//
// Dimensions as in models/decoder.h, and patches, pixels (of a patch, times channels), vocab (the classes,
// padded to a multiple of tensor parallel).
Graph vision_transformer_graph(const Job& job);

}  // namespace simrun
