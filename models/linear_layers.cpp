#include "models/linear_layers.h"

#include <algorithm>

namespace simrun {

bool is_linear_layer(const Graph& graph, const Operator& op) {
  if (op.opcode != Opcode::gemm || op.layer < 0) return false;
  const Tensor& weight = graph.tensors[op.inputs.at(1)];
  const Tensor& out = graph.tensors[op.outputs.at(0)];
  if (weight.kind != TensorKind::parameter || out.dtype != weight.dtype || op.name == "router") return false;
  return std::none_of(weight.dims.begin(), weight.dims.end(), [&](DimensionId dim) {
    const std::string& name = graph.dimensions[dim].name;
    return name == "lora_rank" || name == "one";  // adapters; the gate has one column
  });
}

}  // namespace simrun
