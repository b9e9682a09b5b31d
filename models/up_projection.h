#pragma once

#include <string>
#include <vector>

#include "configs/model_config.h"
#include "models/graph_builder.h"

namespace simrun {

// The first half of a feed-forward network: a product into the feed-forward dimension (gated: two, side by
// side) and the activation function, which takes the product's bias with it.
//   x [rows, hidden] x weight [experts, hidden, (gate,) ffn] -> [rows, (gate,) ffn] -> [rows, ffn]
// `experts` is empty but for a product of every expert by itself. `separate_gate`, of a gated one without
// bias: two products, `name`_gate and `name`_up, as transformers and torchtitan have them.
struct UpProjection {
  std::string name;        // fc1: also of the weight and bias
  std::string activation;  // mlp_activation
  const char* module;      // recompute modules, as in Operator: of both, and inner ones of each
  const char* product_module;
  const char* activation_module;
  std::vector<DimensionId> rows;
  std::vector<DimensionId> experts;
  DimensionId hidden, gate, ffn;
  Activation function;
  bool bias;
  bool separate_gate = false;
};
TensorId add_up_projection(const UpProjection& up, TensorId x, GraphBuilder& graph);

}  // namespace simrun
