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

  Dtype precision() const { return precision_; }
  std::int64_t size(DimensionId dimension) const { return graph_.dimensions[dimension].size; }

  TensorId tensor(const std::string& name, std::vector<DimensionId> dims, Dtype dtype, TensorKind kind);
  TensorId activation(const std::string& name, std::vector<DimensionId> dims) {
    return tensor(name, std::move(dims), precision_, TensorKind::activation);
  }
  TensorId parameter(const std::string& name, std::vector<DimensionId> dims) {
    return tensor(name, std::move(dims), precision_, TensorKind::parameter);
  }

  // Ranks exchange a tensor beside one of the same rows.
  void exchange_beside(TensorId tensor, TensorId rows) { graph_.tensors[tensor].travels_with = rows; }

  // In the layer at hand, reading all its inputs forward. The reference is good until the next call.
  Operator& add(const std::string& name, Opcode opcode, Function function, std::vector<TensorId> inputs,
                std::vector<TensorId> outputs);

  // Where the next operators are: in a layer, and at last behind all of them. Before that: the embedding.
  void enter_layer(std::int32_t layer) { layer_ = layer; }
  void leave_layers();

  // Names of the next operators and tensors begin so.
  void begin_names_with(std::string prefix) { prefix_ = std::move(prefix); }
  // What the next operators are, as Operator says.
  struct Marks {
    std::string stack = {};
    bool before_layer = false, discarded = false;
  };
  void mark(Marks marks) { marks_ = std::move(marks); }
  // No operator can have this dimension split.
  void keep_whole(DimensionId dimension) { whole_.push_back(dimension); }

  Graph take();

 private:
  Graph graph_;
  Dtype precision_;
  std::int32_t layer_ = -1;
  bool after_layers_ = false;
  std::string prefix_;
  Marks marks_;
  std::vector<DimensionId> whole_;
};

}  // namespace simrun
