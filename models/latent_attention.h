#pragma once

#include "configs/model_config.h"
#include "models/decoder_dimensions.h"
#include "models/graph_builder.h"

namespace simrun {

// REQUIRES: the model has latent attention (configs/mla_config.h).
LatentDimensions latent_dimensions(const MlaConfig& mla, GraphBuilder& graph);

// What the core attention reads: queries and keys [batch, sequence, kv_heads, qk_dim], values [.., v_dim].
struct AttentionHeads {
  TensorId q, k, v;
};

// Multi-head latent attention up to its core (DeepSeek-V2, arXiv 2405.04434, section 2.1, equations 37-47):
//   q_down [hidden, q_lora], norm, q_up [q_lora, heads, qk_dim]; without q_lora_rank q_up alone, from hidden
//   kv_down [hidden, kv_lora + qk_rope], norm of its first part, kv_up [kv_lora, heads, qk_nope + v_dim]
//   rope of each head's last qk_rope query elements, and of the keys' shared part
// The up projections and what follows them are Megatron-LM's recompute module mla_up_proj.
AttentionHeads add_latent_heads(const ModelConfig& model, const DecoderDimensions& dims, TensorId y,
                                GraphBuilder& graph);

}  // namespace simrun
