#pragma once

#include "models/graph.h"

namespace simrun {

// Whether an operator is a linear layer of a transformer layer that Transformer Engine runs in fp8: a product
// with a parameter within the layers. Not the router and the shared experts' gate, whose results decide in
// full precision, nor low-rank adapters; embedding and output head are outside the layers.
bool is_linear_layer(const Graph& graph, const Operator& op);

}  // namespace simrun
