#include "planner/mesh_prices.h"

#include "models/backward.h"
#include "planner/choice_graph.h"
#include "sim/kernel_cost.h"

namespace simrun {
namespace {

Plan plan_of_mesh(const Job& job, const Graph& graph, const DeviceMesh& mesh) {
  Plan plan;
  plan.cluster = job.cluster;
  plan.framework = job.framework;
  if (job.framework == Framework{}) plan.cluster.gpu.kernels = {};  // as compile() has it
  for (const Dimension& dimension : graph.dimensions) {
    plan.dimension_names.push_back(dimension.name);
    plan.dimension_sizes.push_back(dimension.size);
  }
  std::int64_t ranks = 1;
  for (const Axis& axis : mesh.mesh.axes) ranks *= axis.size;
  plan.stages.push_back({{{0, ranks}}, {mesh.mesh}});
  return plan;
}

}  // namespace

MeshPrices::MeshPrices(const Job& job, const Graph& graph, const DeviceMesh& mesh,
                       CollectivePrices& collectives)
    : graph_(graph),
      mesh_(mesh),
      gradient_dtype_(job.training.precision),
      main_gradient_dtype_(job.optimizer.main_grads_dtype),
      plan_(plan_of_mesh(job, graph, mesh)),
      collectives_(collectives) {}

double MeshPrices::local_elements(TensorId tensor, const Layout& layout) const {
  double elements = 1;
  for (const DimensionId dim : graph_.tensors[tensor].dims)
    elements *= static_cast<double>(local_extent(graph_, layout, dim, mesh_.mesh));
  return elements;
}

double MeshPrices::local_bytes(TensorId tensor, Dtype dtype, const Layout& layout) const {
  return local_elements(tensor, layout) * static_cast<double>(bytes_of(dtype));
}

double MeshPrices::memory_seconds(double bytes) const {
  const Gpu& gpu = plan_.cluster.gpu;
  return bytes / (gpu.memory_bandwidth * gpu.memory_efficiency);
}

Index MeshPrices::add_buffer(TensorId tensor, Dtype dtype, const Layout& layout) {
  Buffer buffer;
  buffer.name = graph_.tensors[tensor].name;
  buffer.dtype = dtype;
  for (const DimensionId dim : graph_.tensors[tensor].dims)
    buffer.dims.push_back({dim, -1, local_extent(graph_, layout, dim, mesh_.mesh)});
  plan_.buffers.push_back(std::move(buffer));
  return static_cast<Index>(plan_.buffers.size() - 1);
}

double MeshPrices::kernel_seconds(Instruction& instruction) {
  return to_seconds(kernel_time(plan_, instruction));
}

OperatorSeconds MeshPrices::operator_seconds(const Operator& op, const Layout& layout) {
  plan_.buffers.clear();
  Instruction of_op;
  of_op.causal = op.causal;
  of_op.dropout = op.dropout;
  of_op.soft_cap = op.opcode == Opcode::attention && op.soft_cap > 0;
  of_op.alibi = op.alibi;
  of_op.layer = op.layer;
  of_op.label = op.name;
  std::vector<Index> inputs, outputs;
  for (std::size_t i = 0; i < op.inputs.size(); ++i)
    inputs.push_back(
        add_buffer(op.inputs[i], graph_.tensors[op.inputs[i]].dtype, input_layout(graph_, op, layout, i)));
  for (std::size_t o = 0; o < op.outputs.size(); ++o)
    outputs.push_back(
        add_buffer(op.outputs[o], graph_.tensors[op.outputs[o]].dtype, output_layout(graph_, op, layout, o)));
  OperatorSeconds seconds;
  Instruction forward = of_op;
  forward.opcode = op.opcode;
  forward.function = op.function;
  forward.inputs.assign(inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(op.forward_inputs));
  forward.outputs = outputs;
  seconds.forward = kernel_seconds(forward);
  std::vector<Index> gradients(op.inputs.size(), no_index);
  for (const BackwardStep& step : backward_steps(graph_, op)) {
    if (step.alias) continue;
    Instruction backward = of_op;
    backward.opcode = step.opcode;
    backward.function = step.function;
    backward.phase = step.weight ? Phase::backward_weight : Phase::backward_input;
    for (const std::uint8_t i : step.gradients_of) {
      const bool is_parameter = graph_.tensors[op.inputs[i]].kind == TensorKind::parameter;
      gradients[i] = add_buffer(op.inputs[i], is_parameter ? main_gradient_dtype_ : gradient_dtype_,
                                gradient_layout(graph_, op, layout, i));
      if (is_parameter) plan_.buffers.back().category = Category::gradients;
      backward.accumulate |= is_parameter;
      backward.outputs.push_back(gradients[i]);
    }
    for (const Operand& read : step.reads) {
      if (read.role == OperandRole::input_value) backward.inputs.push_back(inputs[read.index]);
      if (read.role == OperandRole::output_value) backward.inputs.push_back(outputs[read.index]);
      if (read.role == OperandRole::output_gradient)
        backward.inputs.push_back(add_buffer(op.outputs[read.index], gradient_dtype_,
                                             output_layout(graph_, op, layout, read.index)));
      if (read.role == OperandRole::input_gradient && gradients[read.index] != no_index)
        backward.inputs.push_back(gradients[read.index]);
    }
    (step.weight ? seconds.backward_weight : seconds.backward_input) += kernel_seconds(backward);
  }
  return seconds;
}

double MeshPrices::collective_seconds(Opcode opcode, const std::vector<AxisId>& axes, double bytes) {
  CollectivePrices::Price*& known = known_[{opcode, axes}];
  if (known == nullptr) known = &collectives_.price(mesh_.mesh, opcode, axes);
  return known->seconds(bytes);
}

double MeshPrices::step_seconds(const Conversion& step, double bytes_before, double bytes_after) {
  if (step.opcode == Opcode::copy) return memory_seconds(2 * bytes_after) + plan_.cluster.gpu.kernel_launch_s;
  return collective_seconds(step.opcode, step.axes, std::max(bytes_before, bytes_after));
}

double MeshPrices::conversion_seconds(TensorId tensor, Dtype dtype, const Layout& from, const Layout& to) {
  double seconds = 0;
  Layout at = from;
  for (const Conversion& step : conversions(from, to)) {
    seconds += step_seconds(step, local_bytes(tensor, dtype, at), local_bytes(tensor, dtype, step.result));
    at = step.result;
  }
  return at == to ? seconds : forbidden_cost;
}

double MeshPrices::gather_seconds(TensorId tensor, Dtype dtype, const Layout& from, const Layout& to) {
  double seconds = 0;
  for (const Conversion& step : conversions(from, to))
    if (step.opcode == Opcode::all_gather)
      seconds += collective_seconds(step.opcode, step.axes, local_bytes(tensor, dtype, step.result));
  return seconds;
}

}  // namespace simrun
