#include "models/flops.h"

namespace simrun {
namespace {

double size_of(const Graph& graph, const char* name) {
  return static_cast<double>(graph.dimensions[graph.dimension(name)].size);
}

// The n-th dimension of a name: two stacks with tokens of their own have one each, in the same order.
double nth_size(const Graph& graph, const char* name, int n) {
  for (const Dimension& dimension : graph.dimensions)
    if (dimension.name == name && n-- == 0) return static_cast<double>(dimension.size);
  return size_of(graph, name);
}

// Rows that experts have, batch x sequence x topk, of those that whole numbers of them per expert make.
double routed_share(const Graph& graph, DimensionId capacity) {
  int stack = 0;
  for (DimensionId dim = 0; dim < capacity; ++dim) stack += graph.dimensions[dim].name == "capacity" ? 1 : 0;
  return size_of(graph, "batch") * nth_size(graph, "sequence", stack) * size_of(graph, "topk") /
         (size_of(graph, "experts") * static_cast<double>(graph.dimensions[capacity].size));
}

double product(const Graph& graph, const std::vector<DimensionId>& dims, Extents extents) {
  double elements = 1;
  for (const DimensionId dim : dims) {
    if (extents == Extents::unpadded && graph.dimensions[dim].name == "capacity")
      elements *= routed_share(graph, dim);
    elements *= static_cast<double>(extents == Extents::padded ? graph.dimensions[dim].padded_size
                                                               : graph.dimensions[dim].size);
  }
  return elements;
}

// The first operand is data, or nothing before it is trained: no gradient of it is computed.
bool is_data(const Graph& graph, const Operator& op) {
  const Tensor& tensor = graph.tensors[op.inputs[0]];
  return tensor.frozen || tensor.kind == TensorKind::index;
}

// Every gate of every step, and the hidden state that it reads.
std::vector<DimensionId> iteration_of_lstm(const Graph& graph, const Operator& op) {
  std::vector<DimensionId> dims = graph.tensors[op.inputs[0]].dims;
  dims.push_back(graph.tensors[op.inputs[1]].dims.back());
  return dims;
}

// Of a convolution over x, B and C, what is not x are B and C, each as wide as the state; of the gated delta
// rule q and k, each as wide as a state's keys.
double state_size(const Graph& graph, const Operator& scan) {
  const DimensionId convolved = graph.tensors[scan.inputs[1]].dims.at(1);
  const std::vector<DimensionId>& channels = graph.tensors[scan.outputs[0]].dims;
  const double inner = product(graph, {channels.begin() + 3, channels.end()}, Extents::unpadded);
  return (static_cast<double>(graph.dimensions[convolved].size) - inner) / 2;
}

}  // namespace

OperatorFlops operator_flops(const Graph& graph, const Operator& op, Extents extents) {
  if (op.opcode == Opcode::gemm) {
    const double once = 2 * product(graph, iteration_space(graph, op), extents);
    const bool left = !is_data(graph, op), right = !graph.tensors[op.inputs[1]].frozen;
    return {once, left ? once : 0, right ? once : 0};
  }
  if (op.opcode == Opcode::conv) {
    const std::vector<DimensionId>& weight = graph.tensors[op.inputs[1]].dims;
    const double once = 2 * product(graph, graph.tensors[op.outputs[0]].dims, extents) *
                        product(graph, {weight.begin() + 1, weight.end()}, extents);
    return {once, is_data(graph, op) ? 0 : once, graph.tensors[op.inputs[1]].frozen ? 0 : once};
  }
  if (op.opcode == Opcode::lstm) {
    const double once = 2 * product(graph, iteration_of_lstm(graph, op), extents);
    return {once, is_data(graph, op) ? 0 : once, graph.tensors[op.inputs[1]].frozen ? 0 : once};
  }
  if (op.opcode == Opcode::scan) {
    const double channels = product(graph, graph.tensors[op.outputs[0]].dims, extents);
    const double forward = scan_operations_of(op.function) * channels * state_size(graph, op);
    const bool differentiated = !graph.tensors[op.inputs[0]].frozen || !graph.tensors[op.inputs[1]].frozen;
    return {forward, differentiated ? 2 * forward : 0, 0};
  }
  if (op.opcode == Opcode::attention) {
    const double context = product(graph, graph.tensors[op.outputs[0]].dims, extents);
    // Scores are sums over the queries' elements, of which packed q, k, v have as many as the context.
    const bool packed = op.inputs.size() < 3;
    const double queries = packed ? context : product(graph, graph.tensors[op.inputs[0]].dims, extents);
    // Every key is in packed q, k, v, or in k by itself; both are [batch, sequence, ..].
    const Tensor& keyed = graph.tensors[op.inputs[op.inputs.size() < 3 ? 0 : 1]];
    const double keys =
        static_cast<double>(attended_keys(op.causal, graph.dimensions[keyed.dims.at(1)].size));
    const double forward = 2 * (queries + context) * keys;
    const bool differentiated = !graph.tensors[op.inputs[0]].frozen;
    return {forward, differentiated ? 2 * forward : 0, 0};
  }
  return {};
}

double model_flops(const Graph& graph) {
  double total = 0;
  for (const Operator& op : graph.operators)
    if (!op.discarded) total += operator_flops(graph, op, Extents::unpadded).total();
  return total;
}

}  // namespace simrun
