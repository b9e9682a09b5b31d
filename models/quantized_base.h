#pragma once

#include "models/graph.h"

namespace simrun {

// The frozen weights of all linear layers within the layers (models/linear_layers.h) as QLoRA keeps them
// (Dettmers et al. 2023, arXiv 2305.14314, section 3): 4 bits an element, a scale of one byte for 64 of them
// and an fp32 for 256 scales. In front of each product stands
//   NAME_dequantize   a MAP: the weight in the type of training, for this product alone
// as bitsandbytes' MatMul4Bit has it, which does so again for the gradient of the product's input. Adapters,
// embedding and head stay wide. To be called once the parameters that are trained are known.
void quantize_base(Graph& graph);

// An operator that reads nothing but parameters: whoever reads its output makes it anew, and nobody keeps it.
bool is_made_of_parameters(const Graph& graph, const Operator& op);

}  // namespace simrun
