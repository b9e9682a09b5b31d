// Llama and the families that differ from it in a key or two.
#include "configs/limits.h"
#include "configs/load_model_families.h"

namespace simrun {
namespace {

void read_swiglu(const ModelKeys& keys) {
  keys.model.activation =
      read_activation(keys, "hidden_act", {{"silu", Activation::swiglu}, {"swish", Activation::swiglu}});
}

void read_attention_biases(const ModelKeys& keys) {
  keys.model.qkv_bias = keys.model.projection_bias = keys.section.boolean("attention_bias", false);
}

void read_llama_with(const ModelKeys& keys, const LlamaDefaults& defaults) {
  read_llama_shape(keys, defaults);
  read_attention_biases(keys);
  keys.model.mlp_bias = keys.section.boolean("mlp_bias", false);
  read_dropout(keys, {"attention_dropout", ""}, 0);
  read_swiglu(keys);
  keys.section.ignore({"partial_rotary_factor"});
}

}  // namespace

void read_llama(const ModelKeys& keys) { read_llama_with(keys, {}); }
void read_llama_with_defaults(const ModelKeys& keys) { read_llama_with(keys, {.has_shape_defaults = true}); }

// Mistral and Qwen2 have defaults of their own for the key-value heads in Hugging Face's code (8 and 32), so
// there the key is required.
void read_mistral(const ModelKeys& keys) {
  read_llama_shape(keys, {.has_key_value_default = false});
  read_dropout(keys, {"attention_dropout", ""}, 0);
  read_swiglu(keys);
  read_attention_windows(keys, WindowPattern::all_layers);
}

void read_qwen2(const ModelKeys& keys) {
  read_llama_shape(keys, {.has_key_value_default = false});
  keys.model.qkv_bias = true;
  refuse_if_true(keys, "use_mrope");
  read_dropout(keys, {"attention_dropout", ""}, 0);
  read_swiglu(keys);
  read_attention_windows(keys, WindowPattern::from_max_window_layers);
}

// Qwen3 Technical Report (arXiv 2505.09388), section 2: Qwen2 without its biases, with norms of q and k.
void read_qwen3(const ModelKeys& keys) {
  read_llama_shape(keys, {.has_key_value_default = false, .head_dim = 128});  // Qwen3Config's default
  read_attention_biases(keys);
  keys.model.qk_norm = QkNorm::of_heads;
  read_dropout(keys, {"attention_dropout", ""}, 0);
  read_swiglu(keys);
  read_attention_windows(keys, WindowPattern::from_max_window_layers);
}

// Nemotron-4 15B (arXiv 2402.16819), section 2: squared ReLU, half of each head rotated, layer norms.
void read_nemotron(const ModelKeys& keys) {
  read_llama_shape(keys, {.epsilon_key = "norm_eps", .norm_epsilon = 1e-5});
  keys.model.normalization = Normalization::layer_norm;
  read_rotary_share(keys, 0.5);
  read_attention_biases(keys);
  keys.model.mlp_bias = keys.section.boolean("mlp_bias", false);
  read_dropout(keys, {"attention_dropout", ""}, 0);
  keys.model.activation = read_activation(keys, "hidden_act", {{"relu2", Activation::squared_relu}});
}

// Its fused qkv_proj and gate_up_proj are what every decoder here has.
void read_phi3(const ModelKeys& keys) {
  read_llama_shape(keys, {.norm_epsilon = 1e-5});
  keys.section.ignore({"full_attn_mod", "interpolate_factor", "original_max_position_embeddings"});
  read_rotary_share(keys, 1.0);
  for (const char* key : {"attention_bias", "lm_head_bias", "mlp_bias"}) refuse_if_true(keys, key);
  read_dropout(keys, {"attention_dropout", "resid_pdrop"}, 0);
  read_embedding_dropout(keys, "embd_pdrop", "resid_pdrop");
  read_swiglu(keys);
  read_attention_windows(keys, WindowPattern::all_layers);
}

// InternLM 2 (arXiv 2403.17297), section 2.2.1: Llama with grouped queries, whose packed wqkv is what every
// decoder here has. `bias` is that of attention.
void read_internlm2(const ModelKeys& keys) {
  read_llama_shape(keys, {.has_key_value_default = false, .rope_base = 10000});
  keys.model.qkv_bias = keys.model.projection_bias = keys.section.boolean("bias", false);
  keys.section.ignore({"attn_implementation"});
  read_dropout(keys, {"attention_dropout", ""}, 0);
  read_swiglu(keys);
}

// Seed-OSS (ByteDance-Seed/Seed-OSS-36B-Base, config.json): biases of queries, keys and values alone.
void read_seed_oss(const ModelKeys& keys) {
  read_llama_shape(keys, {.has_key_value_default = false, .head_dim = 128});  // SeedOssConfig's default
  keys.model.qkv_bias = keys.section.boolean("attention_bias", true);
  keys.model.projection_bias = keys.section.boolean("attention_out_bias", false);
  keys.model.mlp_bias = keys.section.boolean("mlp_bias", false);
  read_dropout(keys, {"attention_dropout", "residual_dropout"}, 0.1);
  keys.model.embedding_dropout = false;
  read_swiglu(keys);
}

// SmolLM3 (Hugging Face, 2025): every fourth layer without rotary positions (Yang et al. 2025, arXiv
// 2501.18795). `no_rope_layers` has 1 for a layer with them.
void read_smollm3(const ModelKeys& keys) {
  read_llama_shape(keys, {.has_key_value_default = false, .tied = true, .rope_base = 2e6});
  read_attention_biases(keys);
  keys.model.mlp_bias = keys.section.boolean("mlp_bias", false);
  read_dropout(keys, {"attention_dropout", ""}, 0);
  read_swiglu(keys);
  refuse_if_true(keys, "use_sliding_window");
  keys.section.ignore({"sliding_window", "max_window_layers", "layer_types"});
  read_layers_without_rope(keys, 4);
}

// Granite (arXiv 2407.13739's successors; GraniteConfig): factors of the embedding, the scores, what is added
// to the residual and the logits.
void read_granite(const ModelKeys& keys) {
  read_llama_with(keys, {});
  read_granite_multipliers(keys);
}

// StarCoder 2 (arXiv 2402.19173), table 6: layer norms, biases everywhere, an MLP without gate.
void read_starcoder2(const ModelKeys& keys) {
  ModelConfig& model = keys.model;
  read_llama_shape(
      keys,
      {.has_key_value_default = false, .tied = true, .epsilon_key = "norm_epsilon", .norm_epsilon = 1e-5});
  model.normalization = Normalization::layer_norm;
  model.qkv_bias = model.projection_bias = model.mlp_bias = keys.section.boolean("use_bias", true);
  keys.section.ignore({"mlp_type", "norm_type"});
  read_dropout(keys, {"attention_dropout", "residual_dropout"}, 0);
  read_embedding_dropout(keys, "embedding_dropout", "residual_dropout");
  model.activation = read_activation(keys, "hidden_act",
                                     {{"gelu_pytorch_tanh", Activation::gelu}, {"gelu", Activation::gelu}});
  read_attention_windows(keys, WindowPattern::all_layers);
}

}  // namespace simrun
