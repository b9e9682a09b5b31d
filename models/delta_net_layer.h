#pragma once

#include <vector>

#include "configs/model_config.h"
#include "models/decoder_dimensions.h"
#include "models/graph_builder.h"

namespace simrun {

// Of the mixer's operators, as a recompute module.
constexpr const char* delta_net_module = "delta_net";

// REQUIRES: the model has Gated DeltaNet layers (configs/delta_net_config.h).
DeltaNetDimensions delta_net_dimensions(const DeltaNetConfig& delta, GraphBuilder& graph);

// The mixer of a Gated DeltaNet layer (Yang et al. 2024, arXiv 2412.06464, section 3.4, figure 1), with the
// parameters of Hugging Face's modeling_qwen3_next.py, by key heads, which tensor-parallel ranks divide:
//   delta_in     [hidden, key heads, q | k | v | b | a]
//   delta_gate   [hidden, key heads, value heads of it, value_head_dim]: z
//   delta_scan   convolution, l2 norms of q and k, gated delta rule in chunks (Opcode::scan)
//   delta_norm   RMS norm over each value head
//   delta_gated  times silu(z)
//   delta_out    [key heads, value heads of it, value_head_dim, hidden]
// Both products of the input are one in Megatron Core (gated_delta_net.py, in_proj) and four in Hugging
// Face's Qwen3.5. Kept for the backward pass is what flash-linear-attention's chunk_gated_delta_rule keeps:
// behind convolution and norms q, k and v of every value head, the inverse by chunks, the decay.
// Returns what the last product reads: the gated channels, then its weight.
std::vector<TensorId> add_delta_net_channels(const ModelConfig& model, const DecoderDimensions& dims,
                                             TensorId y, GraphBuilder& graph);

}  // namespace simrun
