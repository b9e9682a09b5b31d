// Megatron-LM's further keys for `gpt`: norms of queries and keys, latent attention, multi-token prediction.
#include <fmt/format.h>

#include "configs/limits.h"
#include "configs/load_model_families.h"

namespace simrun {
namespace {

bool is_on(const ModelKeys& keys, const std::string& key) {
  keys.section.ignore({key});
  return keys.section.has(key) && keys.section.boolean(key);
}

// What DeepSeek's latent attention has and has not, as the models here do.
void check_latent_attention(const ModelKeys& keys, bool has_norms) {
  const ModelConfig& model = keys.model;
  const std::string path = keys.section.path_of("multi_latent_attention");
  if (!has_norms)
    keys.reading.problem(path, "latent attention without norms of its latents is not supported yet",
                         "qk_layernorm: true.");
  if (model.position_embedding != PositionEmbedding::rope)
    keys.reading.problem(path, "latent attention carries positions in a part of its own that rope turns",
                         "position_embedding_type: rope.");
  if (model.projection_bias || model.qkv_bias)
    keys.reading.problem(path, "latent attention with biases is not supported yet",
                         "disable_bias_linear: true.");
}

}  // namespace

void read_gpt_attention(const ModelKeys& keys) {
  SectionReader& section = keys.section;
  ModelConfig& model = keys.model;
  const bool has_norms = is_on(keys, "qk_layernorm");
  const bool is_latent = is_on(keys, "multi_latent_attention");
  if (!is_latent) {
    derive_head_size(keys, "hidden_size", "kv_channels");
    model.qk_norm = has_norms;
    if (has_norms && model.normalization != Normalization::rms_norm)
      keys.reading.problem(section.path_of("qk_layernorm"), "norms of queries and keys are RMS norms here",
                           "normalization: RMSNorm.");
    return;
  }
  MlaConfig& mla = model.mla;
  if (section.has("q_lora_rank")) mla.q_lora_rank = section.integer("q_lora_rank", limits::width);
  section.ignore({"q_lora_rank", "kv_channels"});
  mla.kv_lora_rank = section.integer("kv_lora_rank", limits::width, 32);  // Megatron-LM's defaults
  mla.qk_nope_head_dim = section.integer("qk_head_dim", limits::width, 128);
  mla.qk_rope_head_dim = section.integer("qk_pos_emb_head_dim", limits::width, 64);
  if (mla.qk_rope_head_dim % 2 != 0)
    keys.reading.problem(
        section.path_of("qk_pos_emb_head_dim"),
        fmt::format("qk_pos_emb_head_dim {} is odd, and rope turns pairs of elements", mla.qk_rope_head_dim),
        fmt::format("{} has pairs.", mla.qk_rope_head_dim + 1));
  mla.v_head_dim = section.integer("v_head_dim", limits::width, 128);
  model.head_dim = mla.qk_head_dim();
  model.num_key_value_heads = model.num_attention_heads;
  check_latent_attention(keys, has_norms);
}

void read_gpt_prediction(const ModelKeys& keys) {
  if (keys.section.has("mtp_num_layers"))
    keys.model.num_nextn_predict_layers = keys.section.integer("mtp_num_layers", {0, limits::layers.most});
  keys.section.ignore({"mtp_num_layers"});
}

}  // namespace simrun
