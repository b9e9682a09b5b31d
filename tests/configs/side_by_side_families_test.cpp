#include <catch2/catch.hpp>

#include "configs/load_job.h"
#include "small_job.h"

// Families with attention and MLP side by side, and DBRX and Llama 4: their config.json as it is published,
// keys that no cost depends on included.
using namespace simrun;
using namespace simrun::test;

namespace {

Job job_of_config(const std::string& model) {
  return load("simrun: 1\nmodel: " + model +
              "\ntraining: {seq_length: 16, micro_batch_size: 1, global_batch_size: 8, precision: bf16}\n"
              "cluster: {from: dgx_a100, nodes: 1}\n");
}

std::string first_message(const std::string& model) {
  const auto problems =
      problems_of("simrun: 1\nmodel: " + model +
                  "\ntraining: {seq_length: 16, micro_batch_size: 1, global_batch_size: 8, precision: bf16}\n"
                  "cluster: {from: dgx_a100, nodes: 1}\n");
  return problems.empty() ? "accepted" : problems.front().message;
}

const char* const small_shape =
    ", num_hidden_layers: 4, hidden_size: 64, intermediate_size: 96, num_attention_heads: 4, "
    "num_key_value_heads: 2, vocab_size: 512}";

std::string with_shape(const std::string& keys) { return "{model_type: " + keys + small_shape; }

const std::string command_r7b_json = R"({"architectures": ["Cohere2ForCausalLM"], "attention_bias": false,
  "attention_dropout": 0.0, "bos_token_id": 5, "cache_implementation": "hybrid", "eos_token_id": 255001,
  "head_dim": 128, "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
  "intermediate_size": 14336, "layer_norm_eps": 1e-05, "layer_switch": 4, "logit_scale": 0.25,
  "max_position_embeddings": 8192, "model_type": "cohere2", "num_attention_heads": 32,
  "num_hidden_layers": 32, "num_key_value_heads": 8, "order_of_interleaved_layers": "local_attn_first",
  "pad_token_id": 0, "position_embedding_type": "rope_gptj", "rope_scaling": null, "rope_theta": 50000,
  "rotary_pct": 1.0, "sliding_window": 4096, "sliding_window_pattern": 4, "torch_dtype": "bfloat16",
  "transformers_version": "4.48.0.dev0", "use_cache": true, "use_embedding_sharing": true,
  "use_gated_activation": true, "use_parallel_block": true, "use_parallel_embedding": true,
  "vocab_size": 256000})";

const std::string dbrx_json = R"({"architectures": ["DbrxForCausalLM"], "attn_config": {"clip_qkv": 8,
  "kv_n_heads": 8, "model_type": "", "rope_theta": 500000}, "d_model": 6144, "emb_pdrop": 0.0,
  "ffn_config": {"ffn_hidden_size": 10752, "model_type": "", "moe_jitter_eps": 0.01, "moe_loss_weight": 0.05,
  "moe_num_experts": 16, "moe_top_k": 4}, "initializer_range": 0.02, "max_seq_len": 32768,
  "model_type": "dbrx", "n_heads": 48, "n_layers": 40, "output_router_logits": false, "resid_pdrop": 0.0,
  "router_aux_loss_coef": 0.05, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
  "transformers_version": "4.39.1", "use_cache": true, "vocab_size": 100352})";

const std::string scout_json = R"({"_attn_implementation_autoset": true, "attention_bias": false,
  "attention_chunk_size": 8192, "attention_dropout": 0.0, "attn_scale": 0.1, "attn_temperature_tuning": 4,
  "bos_token_id": 200000, "cache_implementation": "hybrid", "eos_token_id": [200001, 200007, 200008],
  "floor_scale": 8192, "for_llm_compression": false, "head_dim": 128, "hidden_act": "silu",
  "hidden_size": 5120, "initializer_range": 0.02, "interleave_moe_layer_step": 1, "intermediate_size": 8192,
  "intermediate_size_mlp": 16384, "max_position_embeddings": 262144, "model_type": "llama4_text",
  "no_rope_layers": [], "num_attention_heads": 40, "num_experts_per_tok": 1, "num_hidden_layers": 48,
  "num_key_value_heads": 8, "num_local_experts": 16, "output_router_logits": false, "pad_token_id": 200018,
  "rms_norm_eps": 1e-05, "rope_scaling": null, "rope_theta": 500000.0, "router_aux_loss_coef": 0.001,
  "router_jitter_noise": 0.0, "torch_dtype": "bfloat16", "use_cache": true, "use_qk_norm": true,
  "vocab_size": 202048})";

}  // namespace

TEST_CASE(
    "Command R7B's published config.json: rotary positions where there is a window, one norm for both") {
  const ModelConfig model = job_of_config(command_r7b_json).model;
  CHECK(model.parallel_residual);
  CHECK(model.shared_norm);
  CHECK_FALSE(model.norm_bias);
  CHECK(model.tie_word_embeddings);
  CHECK(model.logit_multiplier == 0.25);
  CHECK(model.layer_kind(2) == LayerKind{.window = 4096, .has_rope = true});
  CHECK(model.layer_kind(3) == LayerKind{.window = 0, .has_rope = false});
  CHECK(model.qk_norm == QkNorm::none);
  CHECK(job_of_config(with_shape("cohere, use_qk_norm: true")).model.qk_norm == QkNorm::by_head);
  CHECK(first_message(with_shape("cohere2")) == "missing required key 'sliding_window' in 'model'");
}

TEST_CASE("Falcon: one norm and one key-value head, or two norms and several") {
  const std::string shape = "num_hidden_layers: 2, hidden_size: 64, num_attention_heads: 8, vocab_size: 512}";
  const ModelConfig first = job_of_config("{model_type: falcon, " + shape).model;
  CHECK(first.shared_norm);
  CHECK(first.num_key_value_heads == 1);
  CHECK(first.ffn_hidden_size == 256);
  // Its older names.
  CHECK(job_of_config("{model_type: falcon, n_layer: 2, n_embed: 64, n_head: 8, vocab_size: 512, "
                      "apply_residual_connection_post_layernorm: false}")
            .model == first);
  const std::string newer = "{model_type: falcon, new_decoder_architecture: true, num_kv_heads: 2, ";
  const ModelConfig second = job_of_config(newer + shape).model;
  CHECK(second.parallel_residual);
  CHECK_FALSE(second.shared_norm);
  CHECK(second.num_key_value_heads == 2);
  CHECK(
      job_of_config(newer + "num_ln_in_parallel_attn: 1, ffn_hidden_size: 200, " + shape).model.shared_norm);
  const ModelConfig serial =
      job_of_config("{model_type: falcon, parallel_attn: false, multi_query: false, bias: true, " + shape)
          .model;
  CHECK_FALSE(serial.parallel_residual);
  CHECK(serial.num_key_value_heads == 8);
  CHECK(serial.mlp_bias);
  CHECK(first_message("{model_type: falcon, alibi: true, " + shape) == "'alibi: true' is not supported yet");
}

TEST_CASE("Phi, StableLM and InternLM 2: biases, part of each head rotated, norms of heads") {
  const ModelConfig phi =
      job_of_config(with_shape("phi, partial_rotary_factor: 0.4, resid_pdrop: 0.1")).model;
  CHECK(phi.shared_norm);
  CHECK(phi.output_bias);
  CHECK(phi.rotary_share == 0.4);
  CHECK(first_message(with_shape("phi, qk_layernorm: true")) == "'qk_layernorm: true' is not supported yet");
  const ModelConfig stable = job_of_config(with_shape("stablelm, use_qkv_bias: true")).model;
  CHECK_FALSE(stable.parallel_residual);
  CHECK(stable.rotary_share == 0.25);
  CHECK(stable.qkv_bias);
  CHECK_FALSE(stable.projection_bias);
  CHECK(
      job_of_config(with_shape("stablelm, use_parallel_residual: true, qk_layernorm: true")).model.qk_norm ==
      QkNorm::by_head);
  CHECK(job_of_config(with_shape("internlm2, bias: true, attn_implementation: eager")).model.projection_bias);
}

TEST_CASE("OLMo: layer norms without weights and biases, clipped heads where it says so") {
  const ModelConfig model = job_of_config(with_shape("olmo, clip_qkv: 8.0")).model;
  CHECK_FALSE(model.norm_weight);
  CHECK(model.normalization == Normalization::layer_norm);
  CHECK(model.qkv_clip == 8);
  CHECK(job_of_config(with_shape("olmo, clip_qkv: null")).model.qkv_clip == 0);
}

TEST_CASE("DBRX's published config.json: four of sixteen experts, clipped heads") {
  const ModelConfig model = job_of_config(dbrx_json).model;
  CHECK(model.qkv_clip == 8);
  CHECK(model.num_key_value_heads == 8);
  CHECK(model.rope_base == 500000);
  CHECK(model.experts.count == 16);
  CHECK(model.experts.topk == 4);
  CHECK(model.experts.balance_loss == 0.05);
  CHECK(model.experts.normalizes_weights);
  CHECK(first_message(
            edited(dbrx_json, "\"moe_top_k\": 4", "\"moe_top_k\": 4, \"moe_normalize_expert_weights\": 2")) ==
        "'moe_normalize_expert_weights' other than 1 is not supported yet");
}

TEST_CASE(
    "Llama 4 Scout's published text_config: chunks where there are rotary positions, scaled queries "
    "elsewhere") {
  const ModelConfig model = job_of_config(scout_json).model;
  CHECK(model.chunked_windows);
  CHECK(model.layer_kind(0) == LayerKind{.has_experts = true, .window = 8192, .has_rope = true});
  CHECK(model.layer_kind(3) == LayerKind{.has_experts = true, .window = 0, .has_rope = false});
  CHECK(model.query_temperature == QueryTemperature{.factor = 0.1, .step = 8192});
  CHECK(model.qk_norm == QkNorm::unweighted);
  CHECK(model.experts.scales_input);
  CHECK(model.experts.score == RouterScore::sigmoid);
  CHECK(model.experts.shared_ffn_hidden_size == 8192);
  CHECK(model.ffn_hidden_size == 0);
  const ModelConfig every_other = job_of_config(edited(scout_json, "\"interleave_moe_layer_step\": 1",
                                                       "\"interleave_moe_layer_step\": 2"))
                                      .model;
  CHECK_FALSE(every_other.experts.in_layer(0));
  CHECK(every_other.experts.in_layer(1));
  CHECK(every_other.ffn_hidden_size == 16384);
  CHECK(job_of_config(
            edited(scout_json, "\"attn_temperature_tuning\": 4", "\"attn_temperature_tuning\": false"))
            .model.query_temperature.factor == 0);
  CHECK(first_message(edited(scout_json, "\"num_experts_per_tok\": 1", "\"num_experts_per_tok\": 2")) ==
        "several experts of a token, each of whose inputs is scaled, are not supported yet");
}

TEST_CASE("Llama 4's experts and chunks are those that the config lists") {
  const std::string keys =
      "llama4_text, intermediate_size_mlp: 128, num_local_experts: 4, num_experts_per_tok: 1, moe_layers: "
      "[0, 3], "
      "attention_chunk_size: 8, layer_types: [full_attention, chunked_attention, chunked_attention, "
      "full_attention]";
  const ModelConfig model = job_of_config(with_shape(keys)).model;
  CHECK(model.experts.layers == std::vector<bool>{true, false, false, true});
  CHECK(model.attention_windows == std::vector<std::int64_t>{0, 8, 8, 0});
  CHECK(first_message(with_shape("llama4_text, intermediate_size_mlp: 128, num_local_experts: 4, "
                                 "num_experts_per_tok: 1, layer_types: [sliding_attention, full_attention, "
                                 "full_attention, full_attention]")) ==
        "layer type 'sliding_attention' is not supported yet");
}

TEST_CASE("Granite's factors and the rotary base of Gemma 3's windows are read") {
  const ModelConfig granite =
      job_of_config(
          with_shape("granite, embedding_multiplier: 12, residual_multiplier: 0.22, logits_scaling: 8, "
                     "attention_multiplier: 0.0078125"))
          .model;
  CHECK(granite.embedding_multiplier == 12);
  CHECK(granite.residual_multiplier == 0.22);
  CHECK(granite.logit_multiplier == 0.125);
  const auto bases = [](const std::string& keys) {
    const ModelConfig model =
        job_of_config(with_shape("gemma3_text, head_dim: 16, sliding_window: 8, " + keys)).model;
    return std::pair(model.rope_base, model.window_rope_base);
  };
  CHECK(bases("rope_theta: 1000000, rope_local_base_freq: 20000") == std::pair(1e6, 2e4));
  CHECK(bases("rope_theta: 1000000") == std::pair(1e6, 1e4));
  CHECK(bases("rope_theta: 10000") == std::pair(1e4, 0.0));  // the same
  CHECK(bases("rope_parameters: {full_attention: {rope_theta: 500}, sliding_attention: {rope_theta: 30}}") ==
        std::pair(500.0, 30.0));
}
