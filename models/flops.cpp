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

}  // namespace

OperatorFlops operator_flops(const Graph& graph, const Operator& op, Extents extents) {
  if (op.opcode == Opcode::gemm) {
    const double once = 2 * product(graph, iteration_space(graph, op), extents);
    const bool left = !graph.tensors[op.inputs[0]].frozen, right = !graph.tensors[op.inputs[1]].frozen;
    return {once, left ? once : 0, right ? once : 0};
  }
  if (op.opcode == Opcode::attention) {
    const double context = product(graph, graph.tensors[op.outputs[0]].dims, extents);
    const double keys =
        static_cast<double>(attended_keys(op.causal, graph.dimensions[graph.dimension("key_sequence")].size));
    const bool differentiated = !graph.tensors[op.inputs[0]].frozen;
    return {4 * context * keys, differentiated ? 8 * context * keys : 0, 0};
  }
  return {};
}

double model_flops(const Graph& graph) {
  double total = 0;
  for (const Operator& op : graph.operators) total += operator_flops(graph, op, Extents::unpadded).total();
  return total;
}

}  // namespace simrun
