#pragma once

#include "configs/training_config.h"
#include "models/graph.h"

namespace simrun {

// Low-rank adapters (Hu et al. 2021, arXiv 2106.09685, section 4.1): behind every product y = x W whose
// operator is a target stand
//   [dropout]   x' = dropout(x)
//   lora_a      a = x' A        A [in..., rank]
//   lora_b      d = a B         B [rank, out...]
//   lora_scale  d alpha / rank
//   lora_add    y + d
// in kernels of their own, as PEFT and Megatron Bridge run them. fc1 and fc2 are those of MLPs, experts (each
// has an A and a B of its own) and shared experts. Of packed q, k, v the targets q, k and v
// have an A and a B each and are added to their part of y. How A and B are split follows from the layout
// rules, as for any product: B of a column-parallel W over its outputs, A of a row-parallel W over its
// inputs.
//
// Throws std::invalid_argument if a target names no operator of the graph.
void add_lora(Graph& graph, const LoraConfig& lora);

}  // namespace simrun
