// Mixtral (arXiv 2401.04088), section 2: Mistral with experts in place of every MLP; and Phi-3.5-MoE.
#include "configs/load_model_experts.h"
#include "configs/load_model_families.h"

namespace simrun {

void read_mixtral(const ModelKeys& keys) {
  read_llama_shape(keys, {.has_key_value_default = false, .norm_epsilon = 1e-5, .rope_base = 1e6});
  keys.model.ffn_hidden_size = 0;  // intermediate_size is an expert's
  read_experts({"num_local_experts", "num_experts_per_tok", "intermediate_size"}, keys);
  read_router_weights({}, keys);
  ignore_router_keys(keys);
  read_dropout(keys, {"attention_dropout", ""}, 0);
  keys.model.activation =
      read_activation(keys, "hidden_act", {{"silu", Activation::swiglu}, {"swish", Activation::swiglu}});
  read_attention_windows(keys, WindowPattern::all_layers);
}

// Phi-3.5-MoE (PhimoeForCausalLM): layer norms, and biases of attention and of the output head.
void read_phimoe(const ModelKeys& keys) {
  read_llama_shape(keys, {.has_key_value_default = false, .norm_epsilon = 1e-5, .rope_base = 1e6});
  ModelConfig& model = keys.model;
  model.ffn_hidden_size = 0;
  read_experts({"num_local_experts", "num_experts_per_tok", "intermediate_size"}, keys);
  read_router_weights({}, keys);
  ignore_router_keys(keys);
  keys.section.ignore({"input_jitter_noise", "original_max_position_embeddings", "expert_dropout"});
  model.normalization = Normalization::layer_norm;
  model.qkv_bias = model.projection_bias = keys.section.boolean("attention_bias", false);
  model.output_bias = keys.section.boolean("lm_head_bias", false);
  read_dropout(keys, {"attention_dropout", "hidden_dropout"}, 0);
  model.embedding_dropout = false;
  model.activation = read_activation(keys, "hidden_act", {{"silu", Activation::swiglu}});
  read_attention_windows(keys, WindowPattern::all_layers);
}

}  // namespace simrun
