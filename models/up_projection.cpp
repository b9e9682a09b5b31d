#include "models/up_projection.h"

#include <utility>

namespace simrun {
namespace {

Function function_of(Activation activation) {
  switch (activation) {
    case Activation::gelu: return Function::gelu;
    case Activation::relu: return Function::relu;
    case Activation::squared_relu: return Function::squared_relu;
    case Activation::swiglu: return Function::swiglu;
    case Activation::geglu: return Function::geglu;
  }
  return Function::none;
}

std::vector<DimensionId> joined(std::vector<DimensionId> dims, const std::vector<DimensionId>& more) {
  dims.insert(dims.end(), more.begin(), more.end());
  return dims;
}

TensorId add_product(const UpProjection& up, const std::string& name, TensorId x,
                     const std::vector<DimensionId>& columns, GraphBuilder& graph) {
  const TensorId weight = graph.parameter(name + "_weight", joined(joined(up.experts, {up.hidden}), columns));
  const TensorId product = graph.activation(name, joined(up.rows, columns));
  Operator& gemm = graph.add(name, Opcode::gemm, Function::none, {x, weight}, {product});
  gemm.module = up.module;
  gemm.inner_module = up.product_module;
  return product;
}

TensorId add_separate_gate(const UpProjection& up, TensorId x, GraphBuilder& graph) {
  const TensorId gate = add_product(up, up.name + "_gate", x, {up.ffn}, graph);
  const TensorId value = add_product(up, up.name + "_up", x, {up.ffn}, graph);
  const TensorId activated = graph.activation(up.activation, joined(up.rows, {up.ffn}));
  const Function function = up.function == Activation::swiglu ? Function::gated_silu : Function::gated_gelu;
  Operator& op = graph.add(up.activation, Opcode::map, function, {gate, value}, {activated});
  op.module = up.module;
  op.inner_module = up.activation_module;
  return activated;
}

}  // namespace

TensorId add_up_projection(const UpProjection& up, TensorId x, GraphBuilder& graph) {
  if (up.separate_gate && is_gated(up.function) && !up.bias) return add_separate_gate(up, x, graph);
  std::vector<DimensionId> columns{up.ffn};
  if (is_gated(up.function)) columns.insert(columns.begin(), up.gate);
  std::vector<TensorId> inputs{add_product(up, up.name, x, columns, graph)};
  if (up.bias) inputs.push_back(graph.parameter(up.name + "_bias", joined(up.experts, columns)));
  const TensorId activated = graph.activation(up.activation, joined(up.rows, {up.ffn}));
  Operator& op =
      graph.add(up.activation, Opcode::map, function_of(up.function), std::move(inputs), {activated});
  op.module = up.module;
  op.inner_module = up.activation_module;
  op.whole_dims = {up.gate};
  return activated;
}

}  // namespace simrun
