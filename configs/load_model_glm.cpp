// GLM-4 (arXiv 2406.12793): biases of queries, keys and values, half of each head rotated; of April 2025 also
// norms behind attention and MLP, inside the residual (Glm4Config).
#include "configs/limits.h"
#include "configs/load_model_families.h"

namespace simrun {

void read_glm(const ModelKeys& keys) {
  read_llama_shape(keys, {.has_key_value_default = false, .head_dim = 128, .norm_epsilon = 1.5625e-07});
  keys.model.qkv_bias = keys.section.boolean("attention_bias", true);
  read_rotary_share(keys, 0.5);
  read_dropout(keys, {"attention_dropout", ""}, 0);
  keys.model.activation = read_activation(keys, "hidden_act", {{"silu", Activation::swiglu}});
}

void read_glm4(const ModelKeys& keys) {
  read_glm(keys);
  keys.model.norm_placement = NormPlacement::sandwich;
}

}  // namespace simrun
