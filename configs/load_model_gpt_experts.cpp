// Megatron-LM's keys of experts for `gpt`.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "configs/layer_pattern.h"
#include "configs/limits.h"
#include "configs/load_model_experts.h"
#include "configs/load_model_families.h"

namespace simrun {
namespace {

constexpr const char* frequency_key = "moe_layer_freq";

// One entry per layer, 1 for a layer with experts; recorded as a list, however it was written.
void use_layers(const ConfigNode& node, std::vector<bool> layers, const ModelKeys& keys) {
  if (static_cast<std::int64_t>(layers.size()) != keys.model.num_layers)
    return keys.reading.problems.push_back(
        {node.position,
         fmt::format("{} has {} entries for {} layers", frequency_key, layers.size(), keys.model.num_layers),
         fmt::format("1 for a layer with experts and 0 for others, {} in all.", keys.model.num_layers)});
  std::vector<int> written(layers.begin(), layers.end());
  keys.reading.record(keys.section.path_of(frequency_key), fmt::format("[{}]", fmt::join(written, ", ")),
                      origin_of(node.position));
  keys.model.experts.layers = std::move(layers);
}

// [1, 0, 1, 0]
void read_layer_list(const ConfigNode& node, const ModelKeys& keys) {
  std::vector<bool> layers;
  for (const ConfigNode& child : node.children) {
    if (child.text != "0" && child.text != "1")
      return keys.reading.problems.push_back(
          {child.position, fmt::format("'{}' lists 0 and 1, not {}", frequency_key, describe(child)),
           "1 for a layer with experts."});
    layers.push_back(child.text == "1");
  }
  use_layers(node, std::move(layers), keys);
}

// "([0]*3+[1]*58)*1"
void read_layer_expression(const ConfigNode& node, const ModelKeys& keys) {
  LayerPattern pattern = parse_layer_pattern(node.text, static_cast<std::size_t>(limits::layers.most));
  if (pattern.problem.empty()) return use_layers(node, std::move(pattern.layers), keys);
  SourcePosition position = node.position;
  if (position.line > 0) position.column += static_cast<int>(pattern.at) + (node.quoted ? 1 : 0);
  keys.reading.problems.push_back({position, fmt::format("'{}': {}", frequency_key, pattern.problem),
                                   "for example \"[0]*3+[1]*58\": 3 layers without experts, 58 with."});
}

// A number n: experts in layers 0, n, 2n, ...; a list; or an expression that makes one.
void read_layers(const ModelKeys& keys) {
  const ConfigNode* node = keys.section.section(frequency_key);
  if (node != nullptr && node->kind == ConfigNode::Kind::sequence) return read_layer_list(*node, keys);
  if (node != nullptr && node->kind == ConfigNode::Kind::scalar &&
      node->text.find_first_of("[(") != std::string::npos)
    return read_layer_expression(*node, keys);
  const std::int64_t step = keys.section.integer(frequency_key, limits::layers, 1);
  select_expert_layers({.first = 0, .step = step, .phase = 0}, keys.model);
}

// How Megatron-LM keeps the load of experts even.
void read_balancing(const ModelKeys& keys) {
  constexpr const char* key = "moe_router_load_balancing_type";
  if (!keys.section.has(key)) return;
  ExpertConfig& experts = keys.model.experts;
  const std::string type =
      keys.section.word(key, {{"aux_loss", "seq_aux_loss", "global_aux_loss", "sinkhorn", "none"}, {}});
  if (type == "none") experts.balance_loss = 0;
  experts.balance_by_sequence = type == "seq_aux_loss";
  experts.is_topk = type != "sinkhorn" && !(type == "global_aux_loss" && experts.balance_loss > 0);
}

void read_router(const ModelKeys& keys) {
  SectionReader& section = keys.section;
  ExpertConfig& experts = keys.model.experts;
  if (section.has("moe_router_score_function"))
    experts.score = section.word("moe_router_score_function", {{"softmax", "sigmoid"}, {}}) == "sigmoid"
                        ? RouterScore::sigmoid
                        : RouterScore::softmax;
  if (section.has("moe_router_enable_expert_bias"))
    experts.selection_bias = section.boolean("moe_router_enable_expert_bias");
  if (section.has("moe_router_num_groups"))
    experts.groups = section.integer("moe_router_num_groups", limits::experts);
  if (section.has("moe_router_group_topk"))
    experts.topk_groups = section.integer("moe_router_group_topk", limits::experts);
  check_expert_groups("moe_router_num_groups", "moe_router_group_topk", keys);
  if (experts.topk_groups > 0)
    experts.group_best = std::max<std::int64_t>(experts.topk / experts.topk_groups, 1);
  // Megatron-LM's softmax is over the chosen experts, or before the choice, as it must be for one.
  const bool before = section.has("moe_router_pre_softmax") && section.boolean("moe_router_pre_softmax");
  section.ignore({"moe_router_pre_softmax", "moe_router_topk_scaling_factor"});
  read_router_weights(
      {.scaling = "moe_router_topk_scaling_factor",
       .balance_loss = "moe_aux_loss_coeff",
       .normalizes_default = experts.topk > 1 && !(before && experts.score == RouterScore::softmax)},
      keys);
  read_balancing(keys);
}

}  // namespace

void read_gpt_experts(const ModelKeys& keys) {
  SectionReader& section = keys.section;
  ModelConfig& model = keys.model;
  if (!section.has("num_experts")) {
    read_gpt_pattern(keys);
    return;
  }
  read_experts({.count = "num_experts",
                .topk = "moe_router_topk",
                .ffn = "moe_ffn_hidden_size",
                .topk_default = 2,
                .ffn_default = model.ffn_hidden_size},
               keys);
  if (!read_gpt_pattern(keys)) read_layers(keys);
  read_router(keys);
  if (section.has("moe_shared_expert_intermediate_size"))
    model.experts.shared_ffn_hidden_size =
        section.integer("moe_shared_expert_intermediate_size", limits::width);
  if (section.has("moe_shared_expert_gate"))
    model.experts.shared_gate =
        section.boolean("moe_shared_expert_gate") && model.experts.shared_ffn_hidden_size > 0;
  if (section.has("moe_latent_size"))
    model.experts.latent_size = section.integer("moe_latent_size", limits::width);
  section.ignore({"moe_latent_size", "moe_router_enable_expert_bias", "moe_router_group_topk",
                  "moe_router_num_groups", "moe_router_score_function", "moe_shared_expert_gate",
                  "moe_shared_expert_intermediate_size"});
  ignore_router_keys(keys);
  section.ignore({"moe_aux_loss_coeff", "moe_router_load_balancing_type"});
  model.experts.bias = model.mlp_bias;
  if (std::ranges::find(model.experts.layers, false) == model.experts.layers.end()) model.ffn_hidden_size = 0;
}

}  // namespace simrun
