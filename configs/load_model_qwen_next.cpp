// Qwen3-Next (Hugging Face, modeling_qwen3_next.py) and the text part of Qwen3.5 (modeling_qwen3_5.py,
// modeling_qwen3_5_moe.py): Gated DeltaNet in most layers, gates of attention's output in the others. Norms
// weight by 1 + w, which costs the same.
#include <algorithm>

#include "configs/delta_net_layers.h"
#include "configs/limits.h"
#include "configs/load_model_experts.h"
#include "configs/load_model_families.h"

namespace simrun {
namespace {

void read_attention_and_delta_net(const ModelKeys& keys) {
  ModelConfig& model = keys.model;
  model.qkv_bias = model.projection_bias = keys.section.boolean("attention_bias", false);
  model.qk_norm = QkNorm::of_heads;
  model.attention_output_gate = true;
  read_rotary_share(keys, 0.25);
  refuse_if_true(keys, "use_sliding_window");
  read_delta_net(keys);
  read_linear_attention_layers(keys);
}

// Keys of Qwen3.5's text_config: what changes nothing here, or must be as it is.
void read_text_keys(const ModelKeys& keys) {
  SectionReader& section = keys.section;
  section.ignore(
      {"mlp_only_layers", "mtp_num_hidden_layers", "mtp_use_dedicated_embeddings", "mamba_ssm_dtype"});
  if (section.has("mtp_num_hidden_layers"))
    keys.model.num_nextn_predict_layers = section.integer("mtp_num_hidden_layers", {0, limits::layers.most});
  section.ignore({"attn_output_gate"});
  if (section.has("attn_output_gate") && !section.boolean("attn_output_gate"))
    keys.reading.problem(section.path_of("attn_output_gate"),
                         "attention without a gate of its output is not Qwen3.5's",
                         "attn_output_gate: true.");
  read_attention_and_delta_net(keys);
}

constexpr LlamaDefaults shape_defaults{.has_key_value_default = false, .head_dim = 256};

}  // namespace

void read_qwen3_next(const ModelKeys& keys) {
  read_llama_shape(keys, shape_defaults);
  read_predicted_tokens(keys);
  read_qwen_experts(keys, true);
  read_shared_expert(keys);
  read_attention_and_delta_net(keys);
}

void read_qwen3_5_text(const ModelKeys& keys) {
  read_llama_shape(keys, shape_defaults);
  read_dropout(keys, {"attention_dropout", ""}, 0);
  keys.model.activation = read_activation(keys, "hidden_act", {{"silu", Activation::swiglu}});
  read_text_keys(keys);
}

// Every layer has experts; there is no other feed-forward width.
void read_qwen3_5_moe_text(const ModelKeys& keys) {
  LlamaDefaults defaults = shape_defaults;
  defaults.has_ffn = false;
  read_llama_shape(keys, defaults);
  read_qwen_experts(keys, true);
  read_shared_expert(keys);
  const std::vector<bool>& layers = keys.model.experts.layers;
  if (std::ranges::find(layers, false) != layers.end())
    keys.reading.problem(keys.section.path_of("mlp_only_layers"),
                         "every layer of qwen3_5_moe_text has experts: there is no width of an MLP without",
                         "mlp_only_layers: [], decoder_sparse_step: 1.");
  read_text_keys(keys);
}

}  // namespace simrun
