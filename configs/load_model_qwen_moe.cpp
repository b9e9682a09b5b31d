// Qwen2-MoE and Qwen3-MoE (arXiv 2505.09388, section 2): Qwen2 and Qwen3 with experts in some layers.
#include <algorithm>

#include "configs/limits.h"
#include "configs/load_model_experts.h"
#include "configs/load_model_families.h"

namespace simrun {
namespace {

// Layer l has experts if (l + 1) % decoder_sparse_step == 0 and it is not listed (Qwen2MoeDecoderLayer).
void read_sparse_layers(const ModelKeys& keys) {
  ModelConfig& model = keys.model;
  const std::int64_t step = keys.section.integer("decoder_sparse_step", limits::layers, 1);
  select_expert_layers({.first = 0, .step = step, .phase = step - 1}, model);
  for (const std::int64_t layer : read_layer_numbers("mlp_only_layers", keys))
    model.experts.layers.at(static_cast<std::size_t>(layer)) = false;
  if (std::ranges::find(model.experts.layers, false) == model.experts.layers.end()) model.ffn_hidden_size = 0;
}

}  // namespace

void read_qwen_experts(const ModelKeys& keys, bool normalizes_default) {
  read_experts({"num_experts", "num_experts_per_tok", "moe_intermediate_size"}, keys);
  read_sparse_layers(keys);
  read_router_weights({.normalizes = "norm_topk_prob", .normalizes_default = normalizes_default}, keys);
  ignore_router_keys(keys);
  read_dropout(keys, {"attention_dropout", ""}, 0);
  keys.model.activation = read_activation(keys, "hidden_act", {{"silu", Activation::swiglu}});
}

void read_shared_expert(const ModelKeys& keys) {
  keys.model.experts.shared_ffn_hidden_size =
      keys.section.integer("shared_expert_intermediate_size", limits::width);
  keys.model.experts.shared_gate = true;
}

void read_qwen2_moe(const ModelKeys& keys) {
  read_llama_shape(keys, {.has_key_value_default = false});
  keys.model.qkv_bias = keys.section.boolean("qkv_bias", true);
  read_qwen_experts(keys, false);
  read_attention_windows(keys, WindowPattern::from_max_window_layers);
  read_shared_expert(keys);
}

void read_qwen3_moe(const ModelKeys& keys) {
  read_llama_shape(keys, {.has_key_value_default = false});
  keys.model.qkv_bias = keys.model.projection_bias = keys.section.boolean("attention_bias", false);
  keys.model.qk_norm = QkNorm::of_heads;
  read_qwen_experts(keys, false);
  read_attention_windows(keys, WindowPattern::from_max_window_layers);
}

}  // namespace simrun
