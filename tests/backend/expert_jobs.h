#pragma once

#include <string>

#include "tests/backend/tiny_jobs.h"

namespace simrun {

// Models with experts of a few thousand parameters, every dimension another number.

// Softmax over all, the two best, weights that sum to 1.
inline const char* const tiny_mixtral =
    "model: {model_type: mixtral, num_hidden_layers: 4, hidden_size: 24, intermediate_size: 20, "
    "num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 50, max_position_embeddings: 12, "
    "num_local_experts: 8, num_experts_per_tok: 2}\n";
// Three experts whose weights do not sum to 1, and one of all tokens behind a gate of its own; a dense layer.
inline const char* const tiny_qwen =
    "model: {model_type: qwen2_moe, num_hidden_layers: 4, hidden_size: 24, intermediate_size: 40, "
    "moe_intermediate_size: 12, shared_expert_intermediate_size: 20, num_attention_heads: 4, "
    "num_key_value_heads: 2, vocab_size: 50, max_position_embeddings: 12, num_experts: 8, "
    "num_experts_per_tok: 3, mlp_only_layers: [1], router_aux_loss_coef: 0.2}\n";
// DeepSeek-V3's router and layers, with plain attention: sigmoid scores, a bias that only chooses, the best
// two of four groups, scaled weights, a shared expert, dense layers first.
inline const char* const tiny_deepseek =
    "model: {model_type: gpt, num_layers: 4, hidden_size: 24, num_attention_heads: 4, ffn_hidden_size: 40, "
    "vocab_size: 50, position_embedding_type: rope, normalization: RMSNorm, "
    "swiglu: true, hidden_dropout: 0, attention_dropout: 0, num_experts: 8, moe_router_topk: 3, "
    "moe_ffn_hidden_size: 12, moe_layer_freq: \"[0]*1+[1]*3\", moe_router_score_function: sigmoid, "
    "moe_router_enable_expert_bias: true, moe_router_num_groups: 4, moe_router_group_topk: 2, "
    "moe_router_topk_scaling_factor: 2.5, moe_aux_loss_coeff: 0.1, "
    "moe_shared_expert_intermediate_size: 20}\n";
// Clipped queries, keys and values, of which some are beyond the bound; layer norms without biases.
inline const char* const tiny_dbrx =
    "model: {model_type: dbrx, n_layers: 4, d_model: 24, n_heads: 4, vocab_size: 50, attn_config: "
    "{kv_n_heads: 2, "
    "clip_qkv: 0.05}, ffn_config: {ffn_hidden_size: 20, moe_num_experts: 8, moe_top_k: 3, "
    "moe_loss_weight: 0.2}}\n";
// Weights of what one expert reads, a shared one, every other layer dense; attention in chunks of 3 tokens
// but for the last layer, whose queries are scaled in steps of 2 tokens.
inline const char* const tiny_llama4 =
    "model: {model_type: llama4_text, num_hidden_layers: 4, hidden_size: 24, intermediate_size: 12, "
    "intermediate_size_mlp: 40, num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 50, "
    "num_local_experts: 8, num_experts_per_tok: 1, interleave_moe_layer_step: 2, attention_chunk_size: 3, "
    "floor_scale: 2, attn_scale: 0.3}\n";
// One expert, biases everywhere, gelu.
inline const char* const tiny_switch =
    "model: {model_type: gpt, num_layers: 4, hidden_size: 24, num_attention_heads: 4, ffn_hidden_size: 40, "
    "vocab_size: 50, max_position_embeddings: 12, hidden_dropout: 0, attention_dropout: 0, num_experts: 4, "
    "moe_router_topk: 1, moe_layer_freq: 2, moe_aux_loss_coeff: 0.3}\n";

}  // namespace simrun
