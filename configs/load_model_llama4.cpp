// Llama 4's text models, Scout and Maverick (Llama4TextConfig): experts in every or every other layer, of
// which a token has one, whose input its weight scales, and a shared one; attention within chunks but for
// every fourth layer, which has no rotary positions.
#include <fmt/format.h>

#include "configs/limits.h"
#include "configs/load_model_experts.h"
#include "configs/load_model_families.h"

namespace simrun {
namespace {

// Those listed, or the last of every interleave_moe_layer_step.
void read_expert_layers(const ModelKeys& keys) {
  ModelConfig& model = keys.model;
  const std::int64_t step = keys.section.integer("interleave_moe_layer_step", limits::layers, 1);
  select_expert_layers({.step = step, .phase = step - 1}, model);
  if (!keys.section.has("moe_layers")) return keys.section.ignore({"moe_layers"});
  model.experts.layers.assign(model.experts.layers.size(), false);
  for (const std::int64_t layer : read_layer_numbers("moe_layers", keys))
    model.experts.layers.at(static_cast<std::size_t>(layer)) = true;
}

void read_llama4_experts(const ModelKeys& keys) {
  ModelConfig& model = keys.model;
  ExpertConfig& experts = model.experts;
  read_experts({"num_local_experts", "num_experts_per_tok", "intermediate_size"}, keys);
  if (experts.topk > 1)
    keys.reading.problem(keys.section.path_of("num_experts_per_tok"),
                         "several experts of a token, each of whose inputs is scaled, are not supported yet",
                         "num_experts_per_tok: 1.");
  experts.score = RouterScore::sigmoid;
  experts.scales_input = true;
  experts.shared_ffn_hidden_size = experts.ffn_hidden_size;
  read_router_weights({.balance_loss = "", .normalizes_default = false}, keys);
  ignore_router_keys(keys);
  read_expert_layers(keys);
  bool has_dense = false;
  for (std::int64_t layer = 0; layer < model.num_layers; ++layer) has_dense |= !experts.in_layer(layer);
  model.ffn_hidden_size = 0;
  if (has_dense) model.ffn_hidden_size = keys.section.integer("intermediate_size_mlp", limits::width);
  keys.section.ignore({"intermediate_size_mlp"});
}

// attn_temperature_tuning is a boolean, or in the first published configs a number.
void read_query_temperature(const ModelKeys& keys) {
  SectionReader& section = keys.section;
  const ConfigNode* node = section.section("attn_temperature_tuning");
  section.ignore({"attn_temperature_tuning"});
  const double factor = section.real("attn_scale", limits::temperature, 0.1);
  const std::int64_t step = section.integer("floor_scale", limits::sequence, 8192);
  const bool is_off = node != nullptr && (node->text == "false" || node->text == "0");
  if (node != nullptr)
    keys.reading.record(section.path_of("attn_temperature_tuning"), is_off ? "false" : "true",
                        origin_of(node->position));
  if (!is_off) keys.model.query_temperature = {factor, step};
}

}  // namespace

void read_llama4_text(const ModelKeys& keys) {
  ModelConfig& model = keys.model;
  read_llama_shape(keys, {.has_key_value_default = false, .norm_epsilon = 1e-5, .rope_base = 5e5});
  model.qkv_bias = model.projection_bias = keys.section.boolean("attention_bias", false);
  if (keys.section.boolean("use_qk_norm", true)) model.qk_norm = QkNorm::unweighted;
  read_llama4_experts(keys);
  read_layers_without_rope(keys, 4);
  read_attention_chunks(keys);
  read_query_temperature(keys);
  read_dropout(keys, {"attention_dropout", ""}, 0);
  model.activation = read_activation(keys, "hidden_act", {{"silu", Activation::swiglu}});
  keys.section.ignore({"for_llm_compression"});
}

}  // namespace simrun
