#pragma once

#include "models/graph_builder.h"

namespace simrun {

// The first position of x [batch, sequence, hidden]: [batch, hidden]. Its gradient is zero elsewhere.
struct SequenceDims {
  DimensionId batch = 0, sequence = 0, hidden = 0;
};
TensorId add_first_token(GraphBuilder& graph, TensorId x, SequenceDims dims);

}  // namespace simrun
