#pragma once

#include "configs/job.h"
#include "models/graph.h"

namespace simrun {

// The forward graph of ResNet (He et al. 2016, arXiv 1512.03385, table 1) and Wide-ResNet: a 7x7 stem and a
// pooling (the embedding), residual blocks (the layers), global average pooling and a classifier (the head).
// One tensor crosses between blocks, so a pipeline may be cut between any two. The classifier's classes are
// split over tensor-parallel ranks; everything before it is repeated on them.
Graph residual_net_graph(const Job& job);

}  // namespace simrun
