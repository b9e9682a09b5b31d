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

}  // namespace

TensorId add_up_projection(const UpProjection& up, TensorId x, GraphBuilder& graph) {
  std::vector<DimensionId> columns{up.ffn};
  if (is_gated(up.function)) columns.insert(columns.begin(), up.gate);
  const TensorId weight =
      graph.parameter(up.name + "_weight", joined(joined(up.experts, {up.hidden}), columns));
  const TensorId product = graph.activation(up.name, joined(up.rows, columns));
  graph.add(up.name, Opcode::gemm, Function::none, {x, weight}, {product}).module = up.module;
  std::vector<TensorId> inputs{product};
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
