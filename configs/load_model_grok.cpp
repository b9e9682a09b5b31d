// Grok-1: xai-org/grok-1's run.py in the keys of its Hugging Face ports. Norms before and behind attention
// and experts, gated GELU, scores capped at 30 by tanh.
#include <cmath>

#include "configs/limits.h"
#include "configs/load_model_experts.h"
#include "configs/load_model_families.h"

namespace simrun {

void read_grok1(const ModelKeys& keys) {
  ModelConfig& model = keys.model;
  SectionReader& section = keys.section;
  read_llama_shape(keys, {.has_key_value_default = false, .tied = true, .norm_epsilon = 1e-5});
  model.ffn_hidden_size = 0;  // intermediate_size is an expert's
  model.norm_placement = NormPlacement::sandwich;
  model.embedding_multiplier = std::sqrt(static_cast<double>(model.hidden_size));
  if (section.has("max_attn_value"))
    model.attention_soft_cap = section.real("max_attn_value", limits::soft_cap);
  if (section.has("attn_output_multiplier"))
    model.attention_scale = section.real("attn_output_multiplier", limits::score_factor);
  section.ignore(
      {"max_attn_value", "attn_output_multiplier", "embedding_multiplier_scale", "output_multiplier_scale"});
  read_experts({"num_experts", "num_experts_per_tok", "intermediate_size"}, keys);
  read_router_weights({.normalizes_default = false}, keys);
  ignore_router_keys(keys);
  read_dropout(keys, {"attention_dropout", ""}, 0);
  model.activation =
      read_activation(keys, "hidden_act", {{"gelu", Activation::geglu}, {"gelu_new", Activation::geglu}});
}

}  // namespace simrun
