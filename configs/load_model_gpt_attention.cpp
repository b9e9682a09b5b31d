// Megatron-LM's further keys for `gpt`: norms of queries and keys, latent attention, multi-token prediction.
#include <fmt/format.h>

#include "configs/layer_pattern.h"
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
  if (model.attention_output_gate)
    keys.reading.problem(path, "latent attention with a gate of its output is not supported yet",
                         "attention_output_gate: false.");
  if (model.projection_bias || model.qkv_bias)
    keys.reading.problem(path, "latent attention with biases is not supported yet",
                         "disable_bias_linear: true.");
}

// Which layers have no rotary positions: the last of every n, or 1 for each of a list's (an expression, as
// moe_layer_freq's).
void read_no_rope_freq(const ModelKeys& keys) {
  constexpr const char* key = "no_rope_freq";
  ModelConfig& model = keys.model;
  keys.section.ignore({key});
  const ConfigNode* node = keys.section.section(key);
  if (node == nullptr) return;
  if (node->text.find_first_of("[(") == std::string::npos) {
    const std::int64_t freq = keys.section.integer(key, limits::layers);
    for (std::int64_t layer = 0; freq > 0 && layer < model.num_layers; ++layer)
      model.layers_without_rope.push_back((layer + 1) % freq == 0);
    return;
  }
  LayerPattern pattern = parse_layer_pattern(node->text, static_cast<std::size_t>(limits::layers.most));
  if (pattern.problem.empty() && static_cast<std::int64_t>(pattern.layers.size()) != model.num_layers)
    pattern.problem = fmt::format("{} entries for {} layers", pattern.layers.size(), model.num_layers);
  if (!pattern.problem.empty())
    return keys.reading.problem(keys.section.path_of(key), fmt::format("'{}': {}", key, pattern.problem),
                                "a number n, or for example \"[0,0,0,1]*8\": 1 for a layer without.");
  keys.reading.record(keys.section.path_of(key), yaml_quoted(node->text), origin_of(node->position));
  model.layers_without_rope = std::move(pattern.layers);
}

}  // namespace

void read_gpt_attention(const ModelKeys& keys) {
  read_no_rope_freq(keys);
  SectionReader& section = keys.section;
  ModelConfig& model = keys.model;
  const bool has_norms = is_on(keys, "qk_layernorm");
  const bool is_latent = is_on(keys, "multi_latent_attention");
  model.attention_output_gate = is_on(keys, "attention_output_gate");
  if (!is_latent) {
    derive_head_size(keys, "hidden_size", "kv_channels");
    if (has_norms) model.qk_norm = QkNorm::of_heads;
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
