#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "configs/model_config.h"

namespace simrun {

// (layer or -1, name in the graph): "qkv_weight" of layer 0.
using ParameterKey = std::pair<std::int32_t, std::string>;
using ScalarParameters = std::map<ParameterKey, std::vector<double>>;

struct ScalarStep {
  double loss = 0;             // mean over all tokens
  ScalarParameters gradients;  // of the loss, as the parameters lie
};

// A training step of a GPT-2 or Llama as their papers write it (Radford et al. 2019; Touvron et al. 2023), in
// scalars on a ScalarTape: token by token, head by head. Knows of the product only how its parameters lie in
// memory: products [in, out], packed q, k, v [hidden, kv_heads, group + 2, head_dim], gated feed-forward
// [hidden, 2, ffn], tables [rows, hidden], experts' matrices [experts, ...]. With experts a sample is a
// microbatch: an expert takes ceil(factor x tokens x topk / experts) of its tokens, the first ones (0: all),
// and the gradients are also those of its balance losses, by layer. REQUIRES: every parameter of the model in
// `parameters`.
ScalarStep scalar_step(const ModelConfig& model, const ScalarParameters& parameters,
                       const std::vector<std::vector<std::int64_t>>& tokens,
                       const std::vector<std::vector<std::int64_t>>& labels, double capacity_factor = 0);

}  // namespace simrun
