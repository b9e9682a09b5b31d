// Megatron-LM's hybrid_override_pattern: layers of `gpt` that are attention, an MLP, experts or Mamba-2
// alone.
#include <fmt/format.h>

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
              .width_default = 2 * keys.model.hidden_size},
             keys);
}

void ignore_mamba(const ModelKeys& keys, bool has_layers) {
  for (const char* key : {"mamba_state_dim", "mamba_head_dim", "mamba_num_groups", "mamba_num_heads"}) {
    if (!has_layers && keys.section.has(key))
      keys.reading.problem(keys.section.path_of(key), fmt::format("{}, and no layer is Mamba's", key),
                           "M in hybrid_override_pattern for those layers.");
    keys.section.ignore({key});
  }
}

// Megatron-LM's mtp_hybrid_override_pattern; returns whether a layer of it is Mamba's.
bool read_further_pattern(const ModelKeys& keys) {
  SectionReader& section = keys.section;
  const bool has_pattern = section.has(further_key), predicts = section.has("mtp_num_layers");
  section.ignore({further_key});
  if (!has_pattern) {
    if (predicts)
      keys.reading.problem(section.path_of("mtp_num_layers"),
                           fmt::format("mtp_num_layers beside {}: layers that predict further tokens have a "
                                       "pattern of their own",
                                       pattern_key),
                           fmt::format("{}: \"*E\", say.", further_key));
    return false;
  }
  if (!predicts)
    keys.reading.problem(section.path_of(further_key), fmt::format("{}, and no mtp_num_layers", further_key),
                         "mtp_num_layers: 1.");
  HybridLayers layers(further_key, keys);
  layers.read_further();
  return layers.has_mamba();
}

}  // namespace

bool read_gpt_pattern(const ModelKeys& keys) {
  SectionReader& section = keys.section;
  if (keys.model.model_type != "gpt") return false;
  section.ignore({pattern_key});
  if (!section.has(pattern_key)) {
    if (section.has(further_key))
      keys.reading.problem(section.path_of(further_key),
                           fmt::format("{} without {}", further_key, pattern_key),
                           "leave it out: a further layer is one like the last.");
    section.ignore({further_key});
    ignore_mamba(keys, false);
    return false;
  }
  if (section.has("moe_layer_freq"))
    keys.reading.problem(
        section.path_of("moe_layer_freq"),
        fmt::format("moe_layer_freq beside {}: the pattern says which layers have experts", pattern_key),
        "E in the pattern for those layers.");
  section.ignore({"moe_layer_freq"});
  HybridLayers layers(pattern_key, keys);
  layers.read();
  const bool has_mamba = read_further_pattern(keys) || layers.has_mamba();
  if (has_mamba) read_gpt_mamba(keys);
  ignore_mamba(keys, has_mamba);
  return true;
}

}  // namespace simrun
