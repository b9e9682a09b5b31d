// Nemotron-H and Nemotron 3: hybrids of Mamba-2, attention, MLPs and experts (Hugging Face's nemotron_h).
#include <fmt/format.h>

#include "configs/hybrid_layers.h"
#include "configs/limits.h"
#include "configs/load_model_experts.h"
#include "configs/load_model_families.h"

namespace simrun {
namespace {

constexpr const char *pattern_key = "hybrid_override_pattern", *further_key = "mtp_hybrid_override_pattern";
// What transformers writes since its version 5 in place of the patterns.
constexpr const char *list_key = "layers_block_type", *further_list_key = "mtp_layers_block_type";

void read_nemotron_experts(const ModelKeys& keys) {
  SectionReader& section = keys.section;
  ExpertConfig& experts = keys.model.experts;
  read_experts({"n_routed_experts", "num_experts_per_tok", "moe_intermediate_size"}, keys);
  const bool has_width = section.has("moe_shared_expert_intermediate_size");
  const std::int64_t shared =
      section.integer("n_shared_experts", {0, limits::experts.most}, has_width ? 1 : 0);
  if (shared > 0)
    experts.shared_ffn_hidden_size =
        shared * section.integer("moe_shared_expert_intermediate_size", limits::width);
  if (section.has("moe_latent_size")) experts.latent_size = section.integer("moe_latent_size", limits::width);
  if (section.has("n_group")) experts.groups = section.integer("n_group", limits::experts);
  if (section.has("topk_group")) experts.topk_groups = section.integer("topk_group", limits::experts);
  experts.group_best = 2;  // as DeepSeek-V3's router, which it is
  if (experts.groups <= 1) {
    experts.groups = experts.topk_groups = 0;
    experts.group_best = 1;
  }
  check_expert_groups("n_group", "topk_group", keys);
  experts.score = RouterScore::sigmoid;
  experts.selection_bias = true;
  experts.balance_by_sequence = true;
  read_router_weights(
      {.normalizes = "norm_topk_prob", .scaling = "routed_scaling_factor", .balance_loss = ""}, keys);
  ignore_router_keys(keys);
}

void ignore_expert_keys(const ModelKeys& keys) {
  keys.section.ignore({"n_routed_experts", "num_experts_per_tok", "moe_intermediate_size", "n_shared_experts",
                       "moe_shared_expert_intermediate_size", "moe_latent_size", "n_group", "topk_group",
                       "norm_topk_prob", "routed_scaling_factor", "moe_shared_expert_overlap"});
}

// Returns whether a layer that predicts a further token is Mamba's.
bool read_further(const ModelKeys& keys) {
  SectionReader& section = keys.section;
  if (section.has("num_nextn_predict_layers"))
    keys.model.num_nextn_predict_layers =
        section.integer("num_nextn_predict_layers", {0, limits::layers.most});
  section.ignore({"num_nextn_predict_layers", further_key, further_list_key});
  if (keys.model.num_nextn_predict_layers == 0) return false;
  HybridLayers layers = section.has(further_key)
                            ? HybridLayers(further_key, keys)
                            : HybridLayers::of_words(further_list_key, keys, {"attention", "moe"});
  layers.read_further();
  return layers.has_mamba();
}

// A key that has this value where it is written: nothing else is modelled, so the value need not be kept.
void require(const ModelKeys& keys, const char* key, const std::string& value) {
  SectionReader& section = keys.section;
  section.ignore({key});
  if (section.has(key) && section.text(key) != value)
    keys.reading.problem(section.path_of(key),
                         fmt::format("{} is {} in the Mamba layers that are modelled", key, value),
                         fmt::format("{}: {}.", key, value));
  keys.reading.take(section.path_of(key));
}

// Of its Mamba layers' kernels: what must be as it is, and what changes nothing here.
void read_kernel_keys(const ModelKeys& keys) {
  require(keys, "conv_kernel", fmt::format("{}", MambaConfig::conv_width));
  require(keys, "chunk_size", "128");
  require(keys, "use_conv_bias", "true");
  require(keys, "mamba_hidden_act", "silu");
  for (const char* key : {"use_bias", "mamba_proj_bias"}) refuse_if_true(keys, key);
  refuse_if_written(keys, "sliding_window", "a sliding window");
  keys.section.ignore({"expand", "mamba_ssm_cache_dtype", "mamba_dt_min", "mamba_dt_max", "mamba_dt_limit",
                       "mamba_dt_init_floor", "time_step_min", "time_step_max", "time_step_limit",
                       "time_step_floor", "time_step_rank", "use_mamba_kernels", "residual_in_fp32",
                       "rescale_prenorm_residual", "num_logits_to_keep", "norm_eps", "partial_rotary_factor",
                       "rope_theta", "attention_head_dim"});
}

}  // namespace

void read_nemotron_h(const ModelKeys& keys) {
  SectionReader& section = keys.section;
  ModelConfig& model = keys.model;
  const bool is_earlier = !section.has("head_dim") && section.has("attention_head_dim");
  read_llama_shape(keys, {.head_dim = 128,
                          .head_dim_key = is_earlier ? "attention_head_dim" : "head_dim",
                          .epsilon_key = "layer_norm_epsilon",
                          .norm_epsilon = 1e-5});
  model.position_embedding = PositionEmbedding::none;
  model.max_position_embeddings = 0;
  model.qkv_bias = model.projection_bias = section.boolean("attention_bias", false);
  model.mlp_bias = section.boolean("mlp_bias", false);
  model.activation = read_activation(keys, "mlp_hidden_act", {{"relu2", Activation::squared_relu}});
  read_dropout(keys, {"attention_dropout", "hidden_dropout"}, 0);
  if (section.has("n_routed_experts")) read_nemotron_experts(keys);
  ignore_expert_keys(keys);
  bool has_mamba = read_further(keys);
  section.ignore({pattern_key, list_key});
  HybridLayers layers = section.has(list_key) && !section.has(pattern_key)
                            ? HybridLayers::of_words(list_key, keys, {})
                            : HybridLayers(pattern_key, keys);
  layers.read();
  has_mamba = has_mamba || layers.has_mamba();
  if (has_mamba)
    read_mamba({.state = "ssm_state_size",
                .head_dim = "mamba_head_dim",
                .groups = "n_groups",
                .heads = "mamba_num_heads"},
               keys);
  section.ignore({"ssm_state_size", "mamba_head_dim", "n_groups", "mamba_num_heads"});
  read_kernel_keys(keys);
}

}  // namespace simrun
