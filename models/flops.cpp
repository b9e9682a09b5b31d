#include "models/flops.h"

namespace simrun {
namespace {

double product(const Graph& graph, const std::vector<DimensionId>& dims, Extents extents) {
  double elements = 1;
  for (const DimensionId dim : dims)
    elements *= static_cast<double>(extents == Extents::padded ? graph.dimensions[dim].padded_size
                                                               : graph.dimensions[dim].size);
  return elements;
}

// The first operand is data, of which no gradient is computed.
bool is_data(const Graph& graph, const Operator& op) {
  return graph.tensors[op.inputs[0]].kind == TensorKind::index;
}

// Every gate of every step, and the hidden state that it reads.
std::vector<DimensionId> iteration_of_lstm(const Graph& graph, const Operator& op) {
  std::vector<DimensionId> dims = graph.tensors[op.inputs[0]].dims;
  dims.push_back(graph.tensors[op.inputs[1]].dims.back());
  return dims;
}

}  // namespace

OperatorFlops operator_flops(const Graph& graph, const Operator& op, Extents extents) {
  if (op.opcode == Opcode::gemm) {
    const double once = 2 * product(graph, iteration_space(graph, op), extents);
    return {once, is_data(graph, op) ? 0 : once, once};
  }
  if (op.opcode == Opcode::conv) {
    const std::vector<DimensionId>& weight = graph.tensors[op.inputs[1]].dims;
    const double once = 2 * product(graph, graph.tensors[op.outputs[0]].dims, extents) *
                        product(graph, {weight.begin() + 1, weight.end()}, extents);
    return {once, is_data(graph, op) ? 0 : once, once};
  }
  if (op.opcode == Opcode::lstm) {
    const double once = 2 * product(graph, iteration_of_lstm(graph, op), extents);
    return {once, once, once};
  }
  if (op.opcode == Opcode::attention) {
    const double context = product(graph, graph.tensors[op.outputs[0]].dims, extents);
    // Every key is in packed q, k, v, or in k by itself; both are [batch, sequence, ..].
    const Tensor& keyed = graph.tensors[op.inputs[op.inputs.size() < 3 ? 0 : 1]];
    const double keys = static_cast<double>(attended_keys(op.causal, graph.dimensions[keyed.dims.at(1)].size));
    return {4 * context * keys, 8 * context * keys, 0};
  }
  return {};
}

double model_flops(const Graph& graph) {
  double total = 0;
  for (const Operator& op : graph.operators) total += operator_flops(graph, op, Extents::unpadded).total();
  return total;
}

}  // namespace simrun
