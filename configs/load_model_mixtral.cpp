// Mixtral (arXiv 2401.04088), section 2: Mistral with experts in place of every MLP; and Phi-3.5-MoE,
// Granite's and MiniMax-M2's.
#include "configs/limits.h"
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

void read_granite_multipliers(const ModelKeys& keys) {
  const auto factor = [&](const char* key) {
    keys.section.ignore({key});
    return keys.section.has(key) ? keys.section.real(key, limits::score_factor) : 1;
  };
  keys.model.attention_scale = keys.section.real("attention_multiplier", limits::score_factor, 1.0);
  keys.model.embedding_multiplier = factor("embedding_multiplier");
  keys.model.residual_multiplier = factor("residual_multiplier");
  const double divisor = factor("logits_scaling");
  keys.model.logit_multiplier = divisor > 0 ? 1 / divisor : 1;
}

// GraniteMoeForCausalLM, and GraniteMoeSharedForCausalLM with an MLP of every token beside the experts.
void read_granitemoe(const ModelKeys& keys) {
  read_llama_shape(keys, {});
  ModelConfig& model = keys.model;
  model.ffn_hidden_size = 0;
  read_experts({"num_local_experts", "num_experts_per_tok", "intermediate_size"}, keys);
  read_router_weights({}, keys);
  ignore_router_keys(keys);
  if (keys.section.has("shared_intermediate_size"))
    model.experts.shared_ffn_hidden_size =
        keys.section.integer("shared_intermediate_size", {0, limits::width.most});
  keys.section.ignore({"shared_intermediate_size"});
  model.qkv_bias = model.projection_bias = keys.section.boolean("attention_bias", false);
  read_dropout(keys, {"attention_dropout", ""}, 0);
  model.activation = read_activation(keys, "hidden_act", {{"silu", Activation::swiglu}});
  read_granite_multipliers(keys);
}

// MiniMax-M2 (MiniMaxAI/MiniMax-M2, config.json and modeling_minimax_m2.py): sigmoid scores with a bias that
// only chooses, norms of queries and keys over all heads, half of each head rotated. Hugging Face's model has
// none of the modules that predict further tokens.
void read_minimax_m2(const ModelKeys& keys) {
  read_llama_shape(keys, {.has_key_value_default = false, .is_shipped_quantized = true, .rope_base = 5e6});
  ModelConfig& model = keys.model;
  SectionReader& section = keys.section;
  model.ffn_hidden_size = 0;
  read_experts({"num_local_experts", "num_experts_per_tok", "intermediate_size"}, keys);
  const std::string scored = section.word("scoring_func", {{"softmax", "sigmoid"}, {}}, "sigmoid");
  model.experts.score = scored == "sigmoid" ? RouterScore::sigmoid : RouterScore::softmax;
  model.experts.selection_bias = section.boolean("use_routing_bias", true);
  read_router_weights({}, keys);
  ignore_router_keys(keys);
  const bool has_norms = section.boolean("use_qk_norm", true);
  const bool of_heads =
      section.word("qk_norm_type", {{"per_layer", "per_head"}, {}}, "per_layer") == "per_head";
  if (has_norms) model.qk_norm = of_heads ? QkNorm::of_heads : QkNorm::of_all_heads;
  if (section.has("rotary_dim") && model.head_dim > 0)
    model.rotary_share = static_cast<double>(section.integer("rotary_dim", {2, model.head_dim})) /
                         static_cast<double>(model.head_dim);
  else
    read_rotary_share(keys, 1);
  for (const std::int64_t kind : read_layer_numbers("attn_type_list", keys))
    if (kind == 0) {
      keys.reading.problem(section.path_of("attn_type_list"), "linear attention is not supported yet");
      break;
    }
  if (section.has("shared_intermediate_size"))
    model.experts.shared_ffn_hidden_size =
        section.integer("shared_intermediate_size", {0, limits::width.most});
  refuse_if_written(keys, "sliding_window", "a sliding window of MiniMax-M2");
  section.ignore({"rotary_dim", "use_mtp", "num_mtp_modules", "mtp_transformer_layers",
                  "partial_rotary_factor", "mlp_intermediate_size", "shared_intermediate_size",
                  "layernorm_full_attention_beta", "layernorm_linear_attention_beta", "layernorm_mlp_beta",
                  "shared_moe_mode", "attn_window_size", "max_model_len"});
  read_dropout(keys, {"attention_dropout", ""}, 0);
  model.activation = read_activation(keys, "hidden_act", {{"silu", Activation::swiglu}});
}

}  // namespace simrun
