#include <catch2/catch.hpp>

#include "tests/backend/expert_job_check.h"

// Every family of models with experts, in a shape of a few thousand parameters.
namespace simrun {
namespace {

const std::string llama_shape =
    "num_hidden_layers: 4, hidden_size: 24, intermediate_size: 20, num_attention_heads: 4, "
    "num_key_value_heads: 2, vocab_size: 50, ";
const std::string latent_shape =
    "num_hidden_layers: 4, hidden_size: 24, intermediate_size: 40, num_attention_heads: 4, vocab_size: 50, "
    "kv_lora_rank: 12, qk_nope_head_dim: 6, qk_rope_head_dim: 4, v_head_dim: 5, moe_intermediate_size: 8, "
    "first_k_dense_replace: 1, n_shared_experts: 1, n_routed_experts: 8, num_experts_per_tok: 3, ";

struct ExpertFamily {
  const char* name;
  std::string model;
  const char* training = "";
};

const ExpertFamily families[] = {
    {"phimoe", llama_shape + "num_local_experts: 8, num_experts_per_tok: 2"},
    {"qwen3_moe",
     llama_shape + "num_experts: 8, num_experts_per_tok: 3, moe_intermediate_size: 12, head_dim: 8"},
    {"olmoe", llama_shape + "num_experts: 8, num_experts_per_tok: 3"},
    {"granitemoeshared", llama_shape + "num_local_experts: 8, num_experts_per_tok: 3, "
                                       "shared_intermediate_size: 12, attention_multiplier: 0.2"},
    {"minimax_m2", llama_shape + "head_dim: 6, rotary_dim: 4, num_local_experts: 8, num_experts_per_tok: 3"},
    {"ernie4_5_moe", llama_shape + "moe_num_experts: 8, moe_k: 3, moe_intermediate_size: 12, "
                                   "moe_num_shared_experts: 2"},
    {"glm4_moe", llama_shape + "head_dim: 6, n_routed_experts: 8, num_experts_per_tok: 3, "
                               "moe_intermediate_size: 12, n_shared_experts: 1, first_k_dense_replace: 1, "
                               "n_group: 4, topk_group: 2, use_qk_norm: true, attention_bias: true, "
                               "num_nextn_predict_layers: 1"},
    {"dbrx",
     "n_layers: 4, d_model: 24, n_heads: 4, vocab_size: 50, attn_config: {kv_n_heads: 2, clip_qkv: 0.05}, "
     "ffn_config: {ffn_hidden_size: 20, moe_num_experts: 8, moe_top_k: 3}"},
    {"llama4_text", llama_shape + "intermediate_size_mlp: 40, num_local_experts: 8, num_experts_per_tok: 1, "
                                  "interleave_moe_layer_step: 2, attention_chunk_size: 3, floor_scale: 2"},
    {"gpt_oss", llama_shape + "head_dim: 6, sliding_window: 3, num_local_experts: 8, num_experts_per_tok: 2"},
    {"grok-1", llama_shape + "num_experts: 8, num_experts_per_tok: 2"},
    {"deepseek_v2", latent_shape + "topk_method: group_limited_greedy, n_group: 4, topk_group: 2, "
                                   "routed_scaling_factor: 3, aux_loss_alpha: 0.1"},
    {"deepseek_v3", latent_shape + "q_lora_rank: 10, n_group: 4, topk_group: 2, num_nextn_predict_layers: 1"},
    {"gpt",
     "num_layers: 6, hidden_size: 24, ffn_hidden_size: 40, num_attention_heads: 4, vocab_size: 50, "
     "max_position_embeddings: 12, num_experts: 8, hybrid_override_pattern: \"*-*E*E\", "
     "attention_dropout: 0, hidden_dropout: 0"},
    {"switch_transformers",
     "num_layers: 2, d_model: 24, d_kv: 5, d_ff: 40, num_heads: 4, vocab_size: 50, dropout_rate: 0, "
     "num_experts: 4, num_sparse_encoder_layers: 1, num_sparse_decoder_layers: 1, router_aux_loss_coef: 0.1",
     ", decoder_seq_length: 4"},
    {"m6",
     "encoder_num_layers: 2, hidden_size: 24, ffn_hidden_size: 40, num_attention_heads: 4, vocab_size: 50, "
     "max_position_embeddings: 12, attention_dropout: 0, hidden_dropout: 0, num_experts: 4, moe_layer_freq: "
     "2",
     ", decoder_seq_length: 4"}};

}  // namespace

TEST_CASE("every family with experts computes on four ranks what it does on one", "[long]") {
  for (const ExpertFamily& family : families) {
    const std::string model = "model: {model_type: " + std::string(family.name) + ", " + family.model + "}\n";
    for (const char* parallelism :
         {"{expert_model_parallel_size: 2, tensor_model_parallel_size: 2, sequence_parallel: true, "
          "expert_tensor_parallel_size: 1}",
          "{expert_model_parallel_size: 2, expert_tensor_parallel_size: 2, tensor_model_parallel_size: 2}",
          "{expert_model_parallel_size: 2, pipeline_model_parallel_size: 2}"})
      check_expert_job({.model = model.c_str(),
                        .parallelism = parallelism,
                        .optimizer = "{zero_stage: 1}",
                        .training = family.training,
                        .gpus = 4});
  }
}

}  // namespace simrun
