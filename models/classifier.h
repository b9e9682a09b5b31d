#pragma once

#include "configs/job.h"
#include "models/graph_builder.h"

namespace simrun {

// Linear classifier and loss of features [batch, features]: logits [batch, classes] with a bias. The classes
// are named vocab, so that tensor parallelism splits them (Whale's split head: Jia et al. 2022,
// arXiv 2011.09208, section 2.2), and padded to a multiple of it.
struct ClassifierDims {
  DimensionId batch = 0, features = 0;
};
void add_classifier(GraphBuilder& graph, const Job& job, TensorId features, ClassifierDims dims);

}  // namespace simrun
