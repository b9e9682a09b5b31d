// DeepSeek-V2 (arXiv 2405.04434) and V3 (arXiv 2412.19437): latent attention, fine-grained and shared
// experts; and GLM-4.5's experts.
#include <fmt/format.h>

#include "configs/limits.h"
#include "configs/load_model_experts.h"
#include "configs/load_model_families.h"

namespace simrun {
namespace {

void read_latent_attention(const ModelKeys& keys) {
  SectionReader& section = keys.section;
  MlaConfig& mla = keys.model.mla;
  if (section.has("q_lora_rank")) mla.q_lora_rank = section.integer("q_lora_rank", limits::width);
  section.ignore({"q_lora_rank", "qk_head_dim"});
  mla.kv_lora_rank = section.integer("kv_lora_rank", limits::width);
  mla.qk_nope_head_dim = section.integer("qk_nope_head_dim", limits::width);
  mla.qk_rope_head_dim = section.integer("qk_rope_head_dim", limits::width);
  if (mla.qk_rope_head_dim % 2 != 0)
    keys.reading.problem(
        section.path_of("qk_rope_head_dim"),
        fmt::format("qk_rope_head_dim {} is odd, and rope turns pairs of elements", mla.qk_rope_head_dim),
        fmt::format("{} has pairs.", mla.qk_rope_head_dim + 1));
  mla.v_head_dim = section.integer("v_head_dim", limits::width);
  refuse_if_true(keys, "attention_bias");
  keys.model.head_dim = mla.qk_head_dim();
  keys.model.num_key_value_heads = keys.model.num_attention_heads;
}

void read_shared_experts(const ModelKeys& keys) {
  if (keys.section.has("n_shared_experts"))
    keys.model.experts.shared_ffn_hidden_size =
        keys.section.integer("n_shared_experts", limits::experts) * keys.model.experts.ffn_hidden_size;
  keys.section.ignore({"n_shared_experts"});
}

void read_expert_layers(const ModelKeys& keys) {
  const std::int64_t first = keys.section.integer("first_k_dense_replace", {0, limits::layers.most}, 0);
  const std::int64_t step = keys.section.integer("moe_layer_freq", limits::layers, 1);
  select_expert_layers({.first = first, .step = step, .phase = 0}, keys.model);
}

// `method`: how experts are chosen where the key is not written.
void read_router(const ModelKeys& keys, const std::string& method, const std::string& score) {
  SectionReader& section = keys.section;
  ExpertConfig& experts = keys.model.experts;
  const std::string chosen =
      section.word("topk_method", {{"greedy", "group_limited_greedy", "noaux_tc"}, {}}, method);
  const std::string scored = section.word("scoring_func", {{"softmax", "sigmoid"}, {}}, score);
  experts.score = scored == "sigmoid" ? RouterScore::sigmoid : RouterScore::softmax;
  experts.selection_bias = chosen == "noaux_tc";
  experts.group_best = chosen == "noaux_tc" ? 2 : 1;
  if (section.has("n_group")) experts.groups = section.integer("n_group", limits::experts);
  if (section.has("topk_group")) experts.topk_groups = section.integer("topk_group", limits::experts);
  section.ignore({"n_group", "topk_group"});
  if (experts.groups <= 1 || chosen == "greedy") {
    experts.groups = experts.topk_groups = 0;
    experts.group_best = 1;
  }
  check_expert_groups("n_group", "topk_group", keys);
}

void read_deepseek(const ModelKeys& keys, const std::string& method, const std::string& score,
                   const RouterWeightKeys& weights) {
  read_llama_shape(keys, {.has_head_dim = false, .is_shipped_quantized = true});
  read_latent_attention(keys);
  read_experts({"n_routed_experts", "num_experts_per_tok", "moe_intermediate_size"}, keys);
  read_shared_experts(keys);
  read_expert_layers(keys);
  read_router(keys, method, score);
  read_router_weights(weights, keys);
  keys.model.experts.balance_by_sequence = !keys.section.has("seq_aux") || keys.section.boolean("seq_aux");
  ignore_router_keys(keys);
  read_dropout(keys, {"attention_dropout", ""}, 0);
  keys.model.activation = read_activation(keys, "hidden_act", {{"silu", Activation::swiglu}});
  keys.section.ignore({"rope_interleave", "mlp_bias"});
}

}  // namespace

void read_deepseek_v2(const ModelKeys& keys) {
  read_deepseek(keys, "greedy", "softmax",
                {.normalizes = "norm_topk_prob",
                 .scaling = "routed_scaling_factor",
                 .balance_loss = "aux_loss_alpha",
                 .normalizes_default = false});
}

void read_deepseek_v3(const ModelKeys& keys) {
  read_deepseek(keys, "noaux_tc", "sigmoid",
                {.normalizes = "norm_topk_prob",
                 .scaling = "routed_scaling_factor",
                 .balance_loss = "aux_loss_alpha",
                 .scaling_default = 2.5});
  read_predicted_tokens(keys);
}

// GLM-4.5 (arXiv 2508.06471), table 1: grouped queries in place of latent attention, norms of queries and
// keys in the larger one. Hugging Face's model has none of the layers that predict further tokens, the
// published weights do.
void read_glm4_moe(const ModelKeys& keys) {
  read_llama_shape(keys, {.has_key_value_default = false, .norm_epsilon = 1e-5});
  ModelConfig& model = keys.model;
  model.qkv_bias = keys.section.boolean("attention_bias", false);
  if (keys.section.boolean("use_qk_norm", false)) model.qk_norm = QkNorm::of_heads;
  read_rotary_share(keys, 0.5);
  read_experts({"n_routed_experts", "num_experts_per_tok", "moe_intermediate_size"}, keys);
  read_shared_experts(keys);
  read_expert_layers(keys);
  read_router(keys, "noaux_tc", "sigmoid");
  read_router_weights(
      {.normalizes = "norm_topk_prob", .scaling = "routed_scaling_factor", .balance_loss = ""}, keys);
  ignore_router_keys(keys);
  read_dropout(keys, {"attention_dropout", ""}, 0);
  model.activation = read_activation(keys, "hidden_act", {{"silu", Activation::swiglu}});
  read_predicted_tokens(keys);
}

}  // namespace simrun
