#pragma once

#include <string>

#include "configs/load_model_keys.h"

// What the families with experts have in common.
namespace simrun {

struct ExpertKeys {
  std::string count;
  std::string topk;
  std::string ffn;
  std::int64_t topk_default = 0;  // 0: the key is required
  std::int64_t ffn_default = 0;   // likewise
};
// Reads the three numbers and checks that no token needs more experts than there are. The experts are in
// every layer until select_expert_layers says otherwise.
void read_experts(const ExpertKeys& names, const ModelKeys& keys);

// Experts in every `step`-th layer from `first` on: layers l >= first with l % step == phase.
struct ExpertLayers {
  std::int64_t first = 0;
  std::int64_t step = 1;
  std::int64_t phase = 0;
};
void select_expert_layers(const ExpertLayers& layers, ModelConfig& model);

// A key that is a list of layer numbers, or not written.
std::vector<std::int64_t> read_layer_numbers(const std::string& key, const ModelKeys& keys);

// What a router's scores become: the keys of a family (empty: it has none) and what holds without them.
struct RouterWeightKeys {
  std::string normalizes = "";
  std::string scaling = "";
  std::string balance_loss = "router_aux_loss_coef";
  bool normalizes_default = true;
  double scaling_default = 1;
};
void read_router_weights(const RouterWeightKeys& names, const ModelKeys& keys);

// Groups of experts, as these keys say: equal ones, with enough experts in those to choose from.
void check_expert_groups(const std::string& groups_key, const std::string& topk_groups_key,
                         const ModelKeys& keys);

// Layers that predict further tokens: none where the key is not written.
void read_predicted_tokens(const ModelKeys& keys);

// Keys of routers that change neither a shape nor a kernel: jitter, what is put out; or that
// read_router_weights reads where a family has them.
void ignore_router_keys(const ModelKeys& keys);

}  // namespace simrun
