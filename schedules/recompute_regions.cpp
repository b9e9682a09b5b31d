#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "models/model_scope.h"
#include "models/quantized_base.h"
#include "schedules/chunk_code.h"
#include "schedules/partition.h"

namespace simrun {
namespace {

constexpr std::int32_t none = -1;

// Where a layer lies: in which virtual stage, and which of its layers it is.
struct PlaceInStage {
  std::size_t stage = 0;
  std::int32_t layer = 0;
};

std::int32_t whole_layers(const RecomputeConfig& config, std::size_t stage) {
  if (config.granularity != RecomputeGranularity::full) return 0;
  return static_cast<std::int32_t>(config.stage_layers.empty() ? config.num_layers
                                                               : config.stage_layers.at(stage));
}

// The place in the list of the operator's module, if the layer is one of those that recompute it.
std::int32_t module_key(const std::string& name, const RecomputeConfig& config, const PlaceInStage& place) {
  const auto module = std::find(config.modules.begin(), config.modules.end(), name);
  if (module == config.modules.end()) return none;
  const auto m = static_cast<std::size_t>(module - config.modules.begin());
  const bool counted = m < config.module_layers.size() && !config.module_layers[m].empty();
  const std::int32_t behind = place.layer - whole_layers(config, place.stage);
  if (counted && behind >= config.module_layers[m].at(place.stage)) return none;
  return static_cast<std::int32_t>(m);
}
std::int32_t module_key(const Operator& op, const RecomputeConfig& config, const PlaceInStage& place) {
  const std::int32_t outer = module_key(op.module, config, place);
  return outer != none ? outer : module_key(op.inner_module, config, place);
}

// The checkpoint that an operator belongs to; operators in a row with equal ones share a region.
struct Checkpoint {
  std::int32_t key = none;
  bool is_module = false;
  bool operator==(const Checkpoint&) const = default;
};

Checkpoint checkpoint_of(const Operator& op, const RecomputeConfig& config, const PlaceInStage& place) {
  if (op.layer < 0 || op.before_layer) return {};
  switch (config.granularity) {
    case RecomputeGranularity::none:
    case RecomputeGranularity::automatic: return {};
    case RecomputeGranularity::selective: return {module_key(op, config, place), true};
    case RecomputeGranularity::full: break;
  }
  if (!config.layers.empty()) return {has_layer(config.layers, op.layer) ? place.layer : none, false};
  if (config.method == RecomputeMethod::uniform)
    return {place.layer / static_cast<std::int32_t>(config.num_layers), false};
  if (place.layer < whole_layers(config, place.stage)) return {place.layer, false};
  return {module_key(op, config, place), true};
}

// In Megatron-LM these modules are checkpointed without their output, the others with it.
bool is_output_discarded(const std::string& module) {
  return module == "layernorm" || module == "moe_act" || module == "mla_up_proj";
}

// By operator: whether another layer, or what is behind all of them, reads an output of it.
std::vector<bool> leave_their_layer(const Graph& graph) {
  std::vector<std::size_t> writer(graph.tensors.size(), graph.operators.size());
  std::vector<bool> leaves(graph.operators.size(), false);
  for (std::size_t o = 0; o < graph.operators.size(); ++o) {
    const Operator& op = graph.operators[o];
    for (const TensorId output : op.outputs) writer[output] = o;
    for (const TensorId input : op.inputs) {
      if (writer[input] == graph.operators.size()) continue;
      const Operator& from = graph.operators[writer[input]];
      if (from.layer != op.layer || from.stack != op.stack || op.before_layer) leaves[writer[input]] = true;
    }
  }
  return leaves;
}

struct NewRegion {
  bool discards_output = false, repeats = false;
};
std::int32_t add_region(RecomputeRegions& regions, NewRegion region) {
  regions.discards_output.push_back(region.discards_output);
  regions.repeats.push_back(region.repeats);
  return static_cast<std::int32_t>(regions.discards_output.size()) - 1;
}

// Every operator of a layer that is not kept is a region of its own, so that just what is read again is
// recomputed: what a selective checkpoint of PyTorch
// (torch.utils.checkpoint.create_selective_checkpoint_contexts) or a policy of JAX
// (jax.checkpoint_policies.save_only_these_names) around each layer does.
RecomputeRegions regions_but(const std::vector<ScopePattern>& saved, const Graph& graph) {
  RecomputeRegions regions;
  regions.keeps_sums = true;
  std::vector<bool> holds_some(saved.size(), false), holds_others(saved.size(), false);
  const std::vector<bool> leaves = leave_their_layer(graph);
  for (std::size_t o = 0; o < graph.operators.size(); ++o) {
    const Operator& op = graph.operators[o];
    const bool repeats = is_made_of_parameters(graph, op);
    bool is_kept = op.layer < 0 || op.before_layer || leaves[o];
    for (std::size_t s = 0; s < saved.size(); ++s) {
      if (!holds(saved[s], graph, op)) continue;
      (op.layer < 0 || op.before_layer ? holds_others : holds_some)[s] = true;
      is_kept = true;
    }
    if (!is_kept) add_region(regions, {.discards_output = true, .repeats = repeats});
    regions.region_of.push_back(is_kept ? none
                                        : static_cast<std::int32_t>(regions.discards_output.size()) - 1);
  }
  std::vector<Diagnostic> faults;
  for (std::size_t s = 0; s < saved.size(); ++s)
    if (!holds_some[s])
      faults.push_back(
          holds_others[s] ? Diagnostic{saved[s].position,
                                       fmt::format("'{}' is in no layer, and kept anyway", saved[s].text), ""}
                          : no_such_scope(saved[s], graph));
  if (!faults.empty()) throw ConfigError(std::move(faults));
  return regions;
}

}  // namespace

RecomputeRegions recompute_regions(const Graph& graph, const RecomputeConfig& config,
                                   const Partition& partition) {
  if (!config.saved.empty()) return regions_but(config.saved, graph);
  RecomputeRegions regions;
  Checkpoint last;
  std::int32_t last_stage = none, last_layer = none, region = none;
  for (std::size_t o = 0; o < graph.operators.size(); ++o) {
    const Operator& op = graph.operators[o];
    if (is_made_of_parameters(graph, op)) {  // a region of its own within a checkpoint that goes on
      regions.region_of.push_back(add_region(regions, {.discards_output = true, .repeats = true}));
      continue;
    }
    const std::int32_t stage = partition.stage_of[o];
    const auto s = static_cast<std::size_t>(stage);
    const Checkpoint own = checkpoint_of(op, config, {s, op.layer - partition.first_layer[s]});
    const bool continues =
        own.key != none && own == last && stage == last_stage && (!own.is_module || op.layer == last_layer);
    if (own.key != none && !continues)
      region = add_region(
          regions,
          {.discards_output =
               own.is_module && is_output_discarded(config.modules[static_cast<std::size_t>(own.key)])});
    regions.region_of.push_back(own.key == none ? none : region);
    last = own;
    last_stage = stage;
    last_layer = op.layer;
  }
  return regions;
}

}  // namespace simrun
