#pragma once

#include "configs/job.h"
#include "models/graph.h"

namespace simrun {

// The forward graph of VGG (Simonyan and Zisserman 2015, arXiv 1409.1556, table 1): 64, 128, 256, 512 and 512
// channels, each resolution's last convolution with its pooling; then two wide layers with ReLU and dropout,
// and the classifier. Layers are convolutions; images are the embedding, the rest the head. Only the classes
// are split over tensor-parallel ranks.
Graph vgg_graph(const Job& job);

}  // namespace simrun
