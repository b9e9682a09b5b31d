// ERNIE 4.5 (Baidu, ERNIE 4.5 Technical Report, 2025; Ernie4_5Config, Ernie4_5_MoeConfig): Llama's layers;
// experts from some layer on, with a bias that only chooses and experts of every token.
#include "configs/limits.h"
#include "configs/load_model_experts.h"
#include "configs/load_model_families.h"

namespace simrun {
namespace {

void read_ernie(const ModelKeys& keys, const LlamaDefaults& defaults) {
  read_llama_shape(keys, defaults);
  keys.model.qkv_bias = keys.model.projection_bias = keys.model.mlp_bias =
      keys.section.boolean("use_bias", false);
  keys.section.ignore({"hidden_dropout_prob", "attention_probs_dropout_prob", "dropout_warmup_steps"});
  read_dropout(keys, {"attention_dropout", ""}, 0);
  keys.model.activation = read_activation(keys, "hidden_act", {{"silu", Activation::swiglu}});
}

}  // namespace

void read_ernie4_5(const ModelKeys& keys) {
  read_ernie(keys, {.has_key_value_default = false,
                    .head_dim = 128,
                    .tied = true,
                    .norm_epsilon = 1e-5,
                    .rope_base = 5e5});
}

void read_ernie4_5_moe(const ModelKeys& keys) {
  read_ernie(keys, {.has_key_value_default = false, .tied = true, .norm_epsilon = 1e-5, .rope_base = 5e5});
  ModelConfig& model = keys.model;
  SectionReader& section = keys.section;
  if (model.mlp_bias)
    keys.reading.problem(section.path_of("use_bias"), "biases of ERNIE's experts are not supported yet",
                         "use_bias: false.");
  read_experts({"moe_num_experts", "moe_k", "moe_intermediate_size"}, keys);
  const std::int64_t shared = section.integer("moe_num_shared_experts", {0, limits::experts.most}, 2);
  model.experts.shared_ffn_hidden_size = shared * model.experts.ffn_hidden_size;
  model.experts.selection_bias = true;
  // A layer has experts if (l + 1) % interval == 0 and it is none of the first (Ernie4_5_MoeDecoderLayer).
  const std::int64_t first = section.integer("moe_layer_start_index", {0, limits::layers.most}, 1);
  const std::int64_t step = section.integer("moe_layer_interval", limits::layers, 1);
  select_expert_layers({.first = first, .step = step, .phase = step - 1}, model);
  const std::int64_t end = section.integer("moe_layer_end_index", {-1, limits::layers.most}, -1);
  for (std::size_t layer = 0; end >= 0 && layer < model.experts.layers.size(); ++layer)
    if (static_cast<std::int64_t>(layer) > end) model.experts.layers[layer] = false;
  read_predicted_tokens(keys);
  section.ignore({"moe_norm_min", "moe_capacity", "moe_gate", "moe_use_aux_free"});
  read_router_weights({}, keys);
  ignore_router_keys(keys);
}

}  // namespace simrun
