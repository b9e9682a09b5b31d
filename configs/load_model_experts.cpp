#include "configs/load_model_experts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "configs/limits.h"
#include "configs/nearest.h"

namespace simrun {

void read_experts(const ExpertKeys& names, const ModelKeys& keys) {
  SectionReader& section = keys.section;
  ExpertConfig& experts = keys.model.experts;
  experts.count = section.integer(names.count, limits::experts);
  std::optional<std::int64_t> topk;
  if (names.topk_default > 0) topk = names.topk_default;
  experts.topk = section.integer(names.topk, limits::experts, topk);
  std::optional<std::int64_t> ffn;
  if (names.ffn_default > 0) ffn = names.ffn_default;
  experts.ffn_hidden_size = section.integer(names.ffn, limits::width, ffn);
  if (experts.count > 0 && experts.topk > experts.count)
    keys.reading.problem(section.path_of(names.topk),
                         fmt::format("a token goes to {} of {} experts", experts.topk, experts.count),
                         fmt::format("at most {}.", experts.count));
  select_expert_layers({}, keys.model);
}

void select_expert_layers(const ExpertLayers& layers, ModelConfig& model) {
  model.experts.layers.assign(static_cast<std::size_t>(model.num_layers), false);
  for (std::int64_t layer = layers.first; layer < model.num_layers && layers.step > 0; ++layer)
    model.experts.layers[static_cast<std::size_t>(layer)] = layer % layers.step == layers.phase;
}

std::vector<std::int64_t> read_layer_numbers(const std::string& key, const ModelKeys& keys) {
  const ConfigNode* node = keys.section.section(key);
  if (node == nullptr) return {};
  const std::string path = keys.section.path_of(key);
  std::vector<std::int64_t> layers;
  if (node->kind != ConfigNode::Kind::sequence) {
    keys.reading.problems.push_back(
        {node->position, fmt::format("'{}' must be a list of layer numbers, not {}", path, describe(*node)),
         ""});
    return {};
  }
  for (const ConfigNode& child : node->children) {
    const Parsed<std::int64_t> layer =
        parse_integer(child.text, {0, std::max<std::int64_t>(keys.model.num_layers - 1, 0)});
    if (!layer.value) {
      keys.reading.problems.push_back(
          {child.position, fmt::format("'{}': {}", path, layer.problem), layer.hint});
      return {};
    }
    layers.push_back(*layer.value);
  }
  keys.reading.record(path, fmt::format("[{}]", fmt::join(layers, ", ")), origin_of(node->position));
  return layers;
}

void read_router_weights(const RouterWeightKeys& names, const ModelKeys& keys) {
  SectionReader& section = keys.section;
  ExpertConfig& experts = keys.model.experts;
  const auto written = [&](const std::string& name) { return !name.empty() && section.has(name); };
  experts.normalizes_weights =
      written(names.normalizes) ? section.boolean(names.normalizes) : names.normalizes_default;
  experts.scaling =
      written(names.scaling) ? section.real(names.scaling, limits::router_weight) : names.scaling_default;
  if (written(names.balance_loss))
    experts.balance_loss = section.real(names.balance_loss, limits::router_weight);
}

void check_expert_groups(const std::string& groups_key, const std::string& topk_groups_key,
                         const ModelKeys& keys) {
  const ExpertConfig& experts = keys.model.experts;
  const std::string groups = keys.section.path_of(groups_key), chosen = keys.section.path_of(topk_groups_key);
  const bool lacks_groups = !keys.section.has(groups_key);
  if (lacks_groups != !keys.section.has(topk_groups_key) && experts.groups + experts.topk_groups > 0) {
    return keys.reading.problem(
        lacks_groups ? chosen : groups,
        fmt::format("'{}' says nothing without '{}'", lacks_groups ? topk_groups_key : groups_key,
                    lacks_groups ? groups_key : topk_groups_key),
        "write both, or neither.");
  }
  if (experts.groups == 0 || experts.topk_groups == 0 || experts.count == 0) return;
  if (experts.topk_groups > experts.groups)
    return keys.reading.problem(
        chosen, fmt::format("a token's experts are in {} of {} groups", experts.topk_groups, experts.groups),
        fmt::format("at most {}.", experts.groups));
  if (experts.count % experts.groups != 0)
    return keys.reading.problem(
        groups, fmt::format("{} experts do not split into {} groups", experts.count, experts.groups),
        nearest_divisors(experts.count, experts.groups));
  const std::int64_t open = experts.count / experts.groups * experts.topk_groups;
  if (experts.topk > open)
    keys.reading.problem(chosen,
                         fmt::format("a token goes to {} experts, and {} of {} groups have {}", experts.topk,
                                     experts.topk_groups, experts.groups, open),
                         "more groups to choose from, or fewer experts of a token.");
}

void read_predicted_tokens(const ModelKeys& keys) {
  if (keys.section.has("num_nextn_predict_layers"))
    keys.model.num_nextn_predict_layers =
        keys.section.integer("num_nextn_predict_layers", {0, limits::layers.most});
  keys.section.ignore({"num_nextn_predict_layers"});
}

void ignore_router_keys(const ModelKeys& keys) {
  keys.section.ignore({"aux_loss_alpha", "ep_size", "input_jitter_noise", "moe_aux_loss_coeff",
                       "norm_topk_prob", "output_router_logits", "routed_scaling_factor",
                       "router_aux_loss_coef", "router_jitter_noise", "seq_aux"});
}

}  // namespace simrun
