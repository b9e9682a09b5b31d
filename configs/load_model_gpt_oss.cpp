// gpt-oss (arXiv 2508.10925, section 2): experts with biases in every layer, attention sinks, every other
// layer with a sliding window.
#include "configs/limits.h"
#include "configs/load_model_experts.h"
#include "configs/load_model_families.h"

namespace simrun {

void read_gpt_oss(const ModelKeys& keys) {
  ModelConfig& model = keys.model;
  read_llama_shape(keys,
                   {.head_dim = 64, .is_shipped_quantized = true, .norm_epsilon = 1e-5, .rope_base = 150000});
  model.ffn_hidden_size = 0;  // intermediate_size is an expert's
  model.qkv_bias = model.projection_bias = keys.section.boolean("attention_bias", true);
  model.attention_sinks = true;
  read_experts({"num_local_experts", "num_experts_per_tok", "intermediate_size"}, keys);
  model.experts.bias = model.experts.router_bias = true;
  read_router_weights({}, keys);
  ignore_router_keys(keys);
  keys.section.ignore({"experts_per_token", "initial_context_length", "swiglu_limit"});
  read_dropout(keys, {"attention_dropout", ""}, 0);
  model.activation = read_activation(keys, "hidden_act", {{"silu", Activation::swiglu}});
  read_attention_windows(keys, WindowPattern::even_layers);
}

}  // namespace simrun
