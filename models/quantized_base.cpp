#include "models/quantized_base.h"

#include <algorithm>
#include <utility>

#include "models/linear_layers.h"

namespace simrun {
namespace {

// The weight in the type of training, and the operator that makes it.
Operator dequantized(Graph& graph, Operator& product) {
  const TensorId weight = product.inputs[1];
  Tensor wide = graph.tensors[weight];
  wide.name += "_dequantized";
  wide.kind = TensorKind::activation;
  graph.tensors.push_back(std::move(wide));
  graph.tensors[weight].dtype = Dtype::fp4;
  graph.tensors[weight].scale_block = nf4_block;
  product.inputs[1] = static_cast<TensorId>(graph.tensors.size() - 1);

  Operator op;
  op.name = product.name + "_dequantize";
  op.module = product.module;
  op.inner_module = product.inner_module;
  op.stack = product.stack;
  op.opcode = Opcode::map;
  op.function = Function::cast;
  op.layer = product.layer;
  op.inputs = {weight};
  op.forward_inputs = 1;
  op.outputs = {product.inputs[1]};
  op.whole_dims = product.whole_dims;
  return op;
}

}  // namespace

void quantize_base(Graph& graph) {
  std::vector<Operator> operators;
  for (Operator& op : graph.operators) {
    if (is_linear_layer(graph, op) && graph.tensors[op.inputs[1]].frozen)
      operators.push_back(dequantized(graph, op));
    operators.push_back(std::move(op));
  }
  graph.operators = std::move(operators);
}

bool is_made_of_parameters(const Graph& graph, const Operator& op) {
  return op.opcode == Opcode::map && op.function == Function::cast &&
         std::ranges::all_of(
             op.inputs, [&](TensorId input) { return graph.tensors[input].kind == TensorKind::parameter; });
}

}  // namespace simrun
