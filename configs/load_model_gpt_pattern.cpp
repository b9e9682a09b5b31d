// Megatron-LM's hybrid_override_pattern: layers of `gpt` that are attention, an MLP, experts or Mamba-2
// alone.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "configs/hybrid_layers.h"
#include "configs/load_model_families.h"

namespace simrun {
namespace {

constexpr const char* pattern_key = "hybrid_override_pattern";
constexpr const char* further_key = "mtp_hybrid_override_pattern";

// Megatron-LM's defaults: states of 128, heads of 64 in 8 groups, and as many heads as make the layer twice
// as wide as the model (MambaMixer's expand).
void read_gpt_mamba(const ModelKeys& keys) {
  read_mamba({.state = "mamba_state_dim",
              .head_dim = "mamba_head_dim",
              .groups = "mamba_num_groups",
              .heads = "mamba_num_heads",
              .state_default = 128,
              .head_dim_default = 64,
              .groups_default = 8,
              .width_default = 2 * std::max<std::int64_t>(keys.model.hidden_size, 1)},
             keys);
}

constexpr std::array mamba_keys{"mamba_state_dim", "mamba_head_dim", "mamba_num_groups", "mamba_num_heads"};

// A key that is written, at its place.
void refuse(const ModelKeys& keys, const char* key, std::string message, std::string hint) {
  keys.reading.problems.push_back(
      {keys.section.section(key)->key_position, std::move(message), std::move(hint)});
}

void ignore_mamba(const ModelKeys& keys) {
  for (const char* key : mamba_keys) keys.section.ignore({key});
}

void refuse_mamba(const ModelKeys& keys) {
  for (const char* key : mamba_keys)
    if (keys.section.has(key))
      refuse(keys, key, fmt::format("{}, and no layer is Mamba's", key),
             "M in hybrid_override_pattern for those layers.");
}

// Which layers of the two patterns are Mamba's, as far as they can be read.
struct MambaLayers {
  bool any = false, all_readable = true;
};

// Megatron-LM's mtp_hybrid_override_pattern.
void read_further_pattern(const ModelKeys& keys, MambaLayers& mamba) {
  SectionReader& section = keys.section;
  const bool has_pattern = section.has(further_key), predicts = keys.model.num_nextn_predict_layers > 0;
  if (!has_pattern && predicts)
    keys.reading.problem(section.path_of("mtp_num_layers"),
                         fmt::format("mtp_num_layers beside {}: layers that predict further tokens have a "
                                     "pattern of their own",
                                     pattern_key),
                         fmt::format("{}: \"*E\", say.", further_key));
  if (has_pattern && !predicts)
    refuse(keys, further_key, fmt::format("{}, and no mtp_num_layers", further_key), "mtp_num_layers: 1.");
  if (!has_pattern || !predicts) return;
  HybridLayers layers(further_key, keys);
  layers.read_further();
  mamba.any = mamba.any || layers.has_mamba();
  mamba.all_readable = mamba.all_readable && layers.is_readable();
}

}  // namespace

bool read_gpt_pattern(const ModelKeys& keys) {
  SectionReader& section = keys.section;
  if (keys.model.model_type != "gpt") return false;
  section.ignore({pattern_key, further_key});
  ignore_mamba(keys);
  if (!section.has(pattern_key)) {
    if (section.has(further_key))
      refuse(keys, further_key, fmt::format("{} without {}", further_key, pattern_key),
             "leave it out: a further layer is one like the last.");
    refuse_mamba(keys);
    return false;
  }
  section.ignore({"moe_layer_freq"});
  if (section.has("moe_layer_freq"))
    refuse(keys, "moe_layer_freq",
           fmt::format("moe_layer_freq beside {}: the pattern says which layers have experts", pattern_key),
           "E in the pattern for those layers.");
  HybridLayers layers(pattern_key, keys);
  layers.read();
  MambaLayers mamba{layers.has_mamba(), layers.is_readable()};
  read_further_pattern(keys, mamba);
  if (mamba.any)
    read_gpt_mamba(keys);
  else if (mamba.all_readable)
    refuse_mamba(keys);
  return true;
}

}  // namespace simrun
