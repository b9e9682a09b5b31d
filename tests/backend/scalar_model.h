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

using ScalarText = std::vector<std::vector<std::int64_t>>;  // by sample and place

// A training step of a GPT-2, Llama or DeepSeek as their papers write it (Radford et al.
// 2019; Touvron et al. 2023; arXiv 2405.04434), in scalars on a ScalarTape: token by token, head by head.
// Knows of the product only how its parameters lie in memory: products [in, out], packed q, k, v [hidden,
// kv_heads, group + 2, head_dim], gated feed-forward [hidden, 2, ffn], tables [rows, hidden]. REQUIRES: every
// parameter of the model in `parameters`. With experts (Shazeer et al. 2017), whose matrices are [experts,
// ...], a sample is a microbatch: an expert takes ceil(factor x tokens x topk / experts) of its tokens, the
// first ones (0: all), and the gradients are also those of its balance losses.
ScalarStep scalar_step(const ModelConfig& model, const ScalarParameters& parameters, const ScalarText& tokens,
                       const ScalarText& labels, double capacity_factor = 0);

// The same of a T5 with `relu`.
ScalarStep scalar_t5_step(const ModelConfig& model, const ScalarParameters& parameters,
                          const ScalarText& source, const ScalarText& target, const ScalarText& labels);

}  // namespace simrun
