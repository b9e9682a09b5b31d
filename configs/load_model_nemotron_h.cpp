// Nemotron-H and Nemotron 3: hybrids of Mamba-2, attention, MLPs and experts (Hugging Face's nemotron_h).
#include <fmt/format.h>

#include "configs/hybrid_layers.h"
#include "configs/limits.h"
#include "configs/load_model_experts.h"
#include "configs/load_model_families.h"

namespace simrun {
namespace {

void read_nemotron_experts(const ModelKeys& keys) {
  SectionReader& section = keys.section;
  ExpertConfig& experts = keys.model.experts;
  read_experts({"n_routed_experts", "num_experts_per_tok", "moe_intermediate_size"}, keys);
  const std::int64_t shared = section.integer("n_shared_experts", {0, limits::experts.most}, 0);
  if (section.has("moe_shared_expert_intermediate_size"))
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

void read_further(const ModelKeys& keys) {
  SectionReader& section = keys.section;
  if (section.has("num_nextn_predict_layers"))
    keys.model.num_nextn_predict_layers =
        section.integer("num_nextn_predict_layers", {0, limits::layers.most});
  if (keys.model.num_nextn_predict_layers > 0)
    HybridLayers("mtp_hybrid_override_pattern", keys).read_further();
  section.ignore({"num_nextn_predict_layers", "mtp_hybrid_override_pattern"});
}

// Of the kernels of its Mamba layers: what changes nothing here, and what must be as it is.
void read_kernel_keys(const ModelKeys& keys) {
  SectionReader& section = keys.section;
  constexpr std::int64_t width = MambaConfig::conv_width;
  if (section.has("conv_kernel") && section.integer("conv_kernel", limits::width) != width)
    keys.reading.problem(section.path_of("conv_kernel"),
                         fmt::format("Mamba layers have a convolution over {} tokens here", width),
                         fmt::format("conv_kernel: {}.", width));
  for (const char* key : {"use_bias", "mamba_proj_bias"}) refuse_if_true(keys, key);
  section.ignore({"conv_kernel",
                  "expand",
                  "chunk_size",
                  "mamba_hidden_act",
                  "mamba_ssm_cache_dtype",
                  "mamba_dt_min",
                  "mamba_dt_max",
                  "mamba_dt_limit",
                  "mamba_dt_init_floor",
                  "time_step_min",
                  "time_step_max",
                  "time_step_limit",
                  "time_step_floor",
                  "time_step_rank",
                  "use_conv_bias",
                  "use_mamba_kernels",
                  "residual_in_fp32",
                  "rescale_prenorm_residual",
                  "num_logits_to_keep",
                  "norm_eps",
                  "sliding_window",
                  "partial_rotary_factor",
                  "rope_theta",
                  "attention_head_dim"});
}

}  // namespace

void read_nemotron_h(const ModelKeys& keys) {
  SectionReader& section = keys.section;
  ModelConfig& model = keys.model;
  read_llama_shape(keys, {.epsilon_key = "layer_norm_epsilon", .norm_epsilon = 1e-5});
  model.position_embedding = PositionEmbedding::none;
  model.max_position_embeddings = 0;
  model.qkv_bias = model.projection_bias = section.boolean("attention_bias", false);
  model.mlp_bias = section.boolean("mlp_bias", false);
  model.activation = read_activation(keys, "mlp_hidden_act", {{"relu2", Activation::squared_relu}});
  read_dropout(keys, {"attention_dropout", "hidden_dropout"}, 0);
  if (section.has("n_routed_experts")) read_nemotron_experts(keys);
  ignore_expert_keys(keys);
  HybridLayers layers("hybrid_override_pattern", keys);
  layers.read();
  if (layers.has_mamba())
    read_mamba({.state = "ssm_state_size",
                .head_dim = "mamba_head_dim",
                .groups = "n_groups",
                .heads = "mamba_num_heads"},
               keys);
  section.ignore({"ssm_state_size", "mamba_head_dim", "n_groups", "mamba_num_heads"});
  read_further(keys);
  read_kernel_keys(keys);
}

}  // namespace simrun
