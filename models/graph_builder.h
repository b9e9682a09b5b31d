#pragma once

#include <string>
#include <vector>

#include "models/graph.h"

namespace simrun {

// Writes a graph down, operator after operator.
class GraphBuilder {
 public:
  // Activations and parameters are of this type where nothing else is said.
  explicit GraphBuilder(Dtype precision) : precision_(precision) {}

  DimensionId dimension(std::string name, std::int64_t size, std::int64_t padded_size);
  DimensionId dimension(std::string name, std::int64_t size) {
    return dimension(std::move(name), size, size);
  }

  std::int64_t size(DimensionId dimension) const { return graph_.dimensions[dimension].size; }

  TensorId tensor(std::string name, std::vector<DimensionId> dims, Dtype dtype, TensorKind kind);
  TensorId activation(std::string name, std::vector<DimensionId> dims) {
    return tensor(std::move(name), std::move(dims), precision_, TensorKind::activation);
  }
  TensorId parameter(std::string name, std::vector<DimensionId> dims) {
    return tensor(std::move(name), std::move(dims), precision_, TensorKind::parameter);
  }

  // In the layer at hand, reading all its inputs forward. The reference is good until the next call.
  Operator& add(std::string name, Opcode opcode, Function function, std::vector<TensorId> inputs,
                std::vector<TensorId> outputs);

  // Where the next operators are: in a layer, and at last behind all of them. Before that: the embedding.
  void enter_layer(std::int32_t layer) { layer_ = layer; }
  void leave_layers();

  Graph take() { return std::move(graph_); }

 private:
  Graph graph_;
  Dtype precision_;
  std::int32_t layer_ = -1;
  bool after_layers_ = false;
};

}  // namespace simrun
