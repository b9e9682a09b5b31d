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
  read_llama_shape(keys, {.head_dim = 128});  // Qwen3Config's default
  read_attention_biases(keys);
  keys.model.qk_norm = true;
  read_dropout(keys, {"attention_dropout", ""}, 0);
  read_swiglu(keys);
  read_attention_windows(keys, WindowPattern::from_max_window_layers);
}

// Nemotron-4 15B (arXiv 2402.16819), section 2: squared ReLU, half of each head rotated, layer norms.
void read_nemotron(const ModelKeys& keys) {
  read_llama_shape(keys, {.epsilon_key = "norm_eps", .norm_epsilon = 1e-5});
  keys.model.normalization = Normalization::layer_norm;
  keys.model.rotary_share = keys.section.real("partial_rotary_factor", limits::share, 0.5);
  read_attention_biases(keys);
  keys.model.mlp_bias = keys.section.boolean("mlp_bias", false);
  read_dropout(keys, {"attention_dropout", ""}, 0);
  keys.model.activation = read_activation(keys, "hidden_act", {{"relu2", Activation::squared_relu}});
}

// Its fused qkv_proj and gate_up_proj are what every decoder here has.
void read_phi3(const ModelKeys& keys) {
  read_llama_shape(keys, {.norm_epsilon = 1e-5});
  keys.section.ignore({"full_attn_mod", "interpolate_factor", "original_max_position_embeddings"});
  keys.model.rotary_share = keys.section.real("partial_rotary_factor", limits::share, 1.0);
  for (const char* key : {"attention_bias", "lm_head_bias", "mlp_bias"}) refuse_if_true(keys, key);
  read_dropout(keys, {"attention_dropout", "resid_pdrop"}, 0);
  read_embedding_dropout(keys, "embd_pdrop", "resid_pdrop");
  read_swiglu(keys);
  read_attention_windows(keys, WindowPattern::all_layers);
}

}  // namespace simrun
