// OLMo, and OLMo 2 (arXiv 2501.00656), section 2.2: norms of what attention and MLP put out, and none before
// them; norms of queries and keys over all heads. OLMo 3: three layers with a sliding window for one without.
// OLMoE (arXiv 2409.02060), section 2: norms before attention and experts, and of queries and keys.
#include "configs/limits.h"
#include "configs/load_model_experts.h"
#include "configs/load_model_families.h"

namespace simrun {
namespace {

void read_olmo_attention(const ModelKeys& keys) {
  read_llama_shape(keys, {.norm_epsilon = 1e-5});
  keys.model.qkv_bias = keys.model.projection_bias = keys.section.boolean("attention_bias", false);
  keys.model.qk_norm = QkNorm::of_all_heads;
  refuse_if_written(keys, "clip_qkv", "clipping of queries, keys and values");
  read_dropout(keys, {"attention_dropout", ""}, 0);
  keys.model.activation = read_activation(keys, "hidden_act", {{"silu", Activation::swiglu}});
}

}  // namespace

// OLMo (arXiv 2402.00838), section 2.1: layer norms without weights and biases.
void read_olmo(const ModelKeys& keys) {
  ModelConfig& model = keys.model;
  read_llama_shape(keys, {.norm_epsilon = 1e-5});
  model.normalization = Normalization::layer_norm;
  model.norm_weight = model.norm_bias = false;
  model.norm_epsilon = 1e-5;  // whatever rms_norm_eps says
  model.qkv_bias = model.projection_bias = keys.section.boolean("attention_bias", false);
  read_qkv_clip(keys);
  read_dropout(keys, {"attention_dropout", ""}, 0);
  model.activation = read_activation(keys, "hidden_act", {{"silu", Activation::swiglu}});
}

void read_olmo2(const ModelKeys& keys) {
  read_olmo_attention(keys);
  keys.model.norm_placement = NormPlacement::output;
}

void read_olmo3(const ModelKeys& keys) {
  read_olmo2(keys);
  // Its absence would mean Olmo3Config's 4096 to Hugging Face, and full attention here.
  if (!keys.section.has("sliding_window")) keys.section.integer("sliding_window", limits::sequence);
  read_attention_windows(keys, WindowPattern::all_but_last_of, 4);
}

void read_olmoe(const ModelKeys& keys) {
  read_olmo_attention(keys);
  keys.model.ffn_hidden_size = 0;  // intermediate_size is an expert's
  read_experts({"num_experts", "num_experts_per_tok", "intermediate_size"}, keys);
  read_router_weights({.normalizes = "norm_topk_prob", .normalizes_default = false}, keys);
  ignore_router_keys(keys);
}

}  // namespace simrun
