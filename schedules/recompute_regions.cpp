#include <algorithm>

#include "schedules/chunk_code.h"

namespace simrun {
namespace {

constexpr std::int32_t none = -1;

// Key of the checkpoint that an operator belongs to, or `none`; operators in a row with one key share a
// region.
std::int32_t checkpoint_key(const Operator& op, const RecomputeConfig& config, std::int32_t layer_in_stage) {
  if (op.layer < 0 || config.granularity == RecomputeGranularity::none) return none;
  if (config.granularity == RecomputeGranularity::selective) {
    auto module = std::find(config.modules.begin(), config.modules.end(), op.module);
    if (module == config.modules.end())
      module = std::find(config.modules.begin(), config.modules.end(), op.inner_module);
    return module == config.modules.end() ? none : static_cast<std::int32_t>(module - config.modules.begin());
  }
  const auto layers = static_cast<std::int32_t>(config.num_layers);
  if (config.method == RecomputeMethod::uniform) return layer_in_stage / layers;
  return layer_in_stage < layers ? layer_in_stage : none;
}

// In Megatron-LM these modules are checkpointed without their output, the others with it.
bool is_output_discarded(const std::string& module) {
  return module == "layernorm" || module == "moe_act" || module == "mla_up_proj";
}

}  // namespace

RecomputeRegions recompute_regions(const Graph& graph, const RecomputeConfig& config,
                                   const std::vector<std::int32_t>& first_layer_of_operator_stage) {
  RecomputeRegions regions;
  std::int32_t last_key = none;
  std::int32_t last_stage_layer = none;
  std::int32_t last_layer = none;
  for (std::size_t o = 0; o < graph.operators.size(); ++o) {
    const Operator& op = graph.operators[o];
    const std::int32_t stage_layer = first_layer_of_operator_stage[o];
    const std::int32_t key = checkpoint_key(op, config, op.layer - stage_layer);
    const bool selective = config.granularity == RecomputeGranularity::selective;
    const bool continues = key != none && key == last_key && stage_layer == last_stage_layer &&
                           (!selective || op.layer == last_layer);
    if (key != none && !continues)
      regions.discards_output.push_back(selective &&
                                        is_output_discarded(config.modules[static_cast<std::size_t>(key)]));
    regions.region_of.push_back(key == none ? none
                                            : static_cast<std::int32_t>(regions.discards_output.size()) - 1);
    last_key = key;
    last_stage_layer = stage_layer;
    last_layer = op.layer;
  }
  return regions;
}

}  // namespace simrun
