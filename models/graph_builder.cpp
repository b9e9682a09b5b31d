#include "models/graph_builder.h"

#include <utility>

namespace simrun {

DimensionId GraphBuilder::dimension(std::string name, std::int64_t size, std::int64_t padded_size) {
  graph_.dimensions.push_back({std::move(name), size, padded_size});
  return static_cast<DimensionId>(graph_.dimensions.size() - 1);
}

TensorId GraphBuilder::tensor(const std::string& name, std::vector<DimensionId> dims, Dtype dtype,
                              TensorKind kind) {
  graph_.tensors.push_back({prefix_ + name, std::move(dims), dtype, kind});
  return static_cast<TensorId>(graph_.tensors.size() - 1);
}

Operator& GraphBuilder::add(const std::string& name, Opcode opcode, Function function,
                            std::vector<TensorId> inputs, std::vector<TensorId> outputs) {
  Operator op;
  op.name = prefix_ + name;
  op.opcode = opcode;
  op.function = function;
  op.layer = layer_;
  op.after_layers = after_layers_;
  op.stack = marks_.stack;
  op.before_layer = marks_.before_layer;
  op.discarded = marks_.discarded;
  op.forward_inputs = inputs.size();
  op.inputs = std::move(inputs);
  op.outputs = std::move(outputs);
  graph_.operators.push_back(std::move(op));
  return graph_.operators.back();
}

void GraphBuilder::leave_layers() {
  layer_ = -1;
  after_layers_ = true;
}

Graph GraphBuilder::take() {
  for (Operator& op : graph_.operators)
    op.whole_dims.insert(op.whole_dims.end(), whole_.begin(), whole_.end());
  return std::move(graph_);
}

}  // namespace simrun
