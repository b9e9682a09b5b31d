#include "models/backward.h"

#include <algorithm>
#include <utility>

namespace simrun {
namespace {

constexpr Operand gradient{OperandRole::output_gradient, 0};
constexpr Operand input(std::uint8_t index) { return {OperandRole::input_value, index}; }
constexpr Operand output(std::uint8_t index) { return {OperandRole::output_value, index}; }

BackwardStep sum_over_rows(Operand of, std::uint8_t bias) {
  return {Opcode::reduce, Function::sum, true, false, {of}, {bias}};
}

// Data have no gradient: the first layer of an image model has no step for it.
bool wants_gradient(const Graph& graph, const Operator& op, std::size_t i) {
  return graph.tensors[op.inputs[i]].kind != TensorKind::index;
}

std::vector<BackwardStep> gemm_steps(const Graph& graph, const Operator& op) {
  const bool weight = graph.tensors[op.inputs[1]].kind == TensorKind::parameter;
  std::vector<BackwardStep> steps;
  if (wants_gradient(graph, op, 0))
    steps.push_back({Opcode::gemm, Function::none, false, false, {gradient, input(1)}, {0}});
  steps.push_back({Opcode::gemm, Function::none, weight, false, {input(0), gradient}, {1}});
  if (op.inputs.size() > 2) steps.push_back(sum_over_rows(gradient, 2));
  return steps;
}

std::vector<BackwardStep> gather_steps(const Graph& graph, const Operator& op) {
  const bool routes_rows = op.function == Function::dispatch || op.function == Function::combine;
  if (routes_rows && op.inputs.size() == 1)  // on the way between a token's node and GPU or expert
    return {{Opcode::scatter, op.function, false, false, {gradient}, {0}}};
  if (op.function == Function::dispatch) {
    BackwardStep scatter{Opcode::scatter, Function::dispatch, false, false, {gradient, input(1)}, {0}};
    if (op.inputs.size() > 2) scatter.reads.push_back(input(2));
    return {scatter};
  }
  if (op.function == Function::combine && op.inputs.size() == 2) {
    if (graph.tensors[op.inputs[1]].kind != TensorKind::index)  // weighted sums of experts' rows of a GPU
      return {{Opcode::scatter, Function::combine, false, false, {gradient, input(0), input(1)}, {0, 1}}};
    return {{Opcode::gather, Function::dispatch, false, false, {gradient, input(1)}, {0}}};
  }
  if (op.function == Function::combine)
    return {
        {Opcode::scatter, Function::combine, false, false, {gradient, input(0), input(1), input(2)}, {0, 1}}};
  BackwardStep scatter{Opcode::scatter, Function::none, true, false, {gradient}, {0}};
  if (graph.tensors[op.inputs[1]].kind != TensorKind::index)
    return {{Opcode::copy, Function::none, false, true, {gradient}, {1}}, scatter};
  scatter.reads.push_back(input(1));
  return {scatter};
}

// A bias that only chooses has no gradient. What it is updated by at the step's end, the tokens of each
// expert over all ranks, takes its place (DeepSeek-V3, section 2.1.2).
std::vector<BackwardStep> route_steps(const Operator& op) {
  std::vector<BackwardStep> steps{
      {Opcode::route_backward, Function::none, false, false, {gradient, input(0), output(1)}, {0}}};
  if (op.inputs.size() > 1) steps.push_back(sum_over_rows(output(1), 1));
  return steps;
}

std::vector<BackwardStep> attention_steps(const Operator& op) {
  BackwardStep step{Opcode::attention_backward, op.function, false, false, {gradient}, {}};
  for (std::uint8_t i = 0; i < static_cast<std::uint8_t>(op.inputs.size()); ++i) {
    step.reads.push_back(input(i));
    step.gradients_of.push_back(i);
  }
  if (op.function == Function::flash) step.reads.push_back(output(0));
  for (std::size_t o = 1; o < op.outputs.size(); ++o)
    step.reads.push_back(output(static_cast<std::uint8_t>(o)));
  return {step};
}

std::vector<BackwardStep> norm_steps(const Operator& op) {
  BackwardStep step{Opcode::norm_backward, op.function, false, false, {gradient, input(0)}, {}};
  if (op.inputs.size() > 1) step.reads.push_back(input(1));
  step.reads.push_back(output(1));
  for (std::size_t i = 0; i < op.inputs.size(); ++i)
    step.gradients_of.push_back(static_cast<std::uint8_t>(i));
  return {step};
}

std::vector<BackwardStep> convolution_steps(const Graph& graph, const Operator& op) {
  std::vector<BackwardStep> steps;
  if (wants_gradient(graph, op, 0))
    steps.push_back(
        {Opcode::conv, Function::convolution_input_gradient, false, false, {gradient, input(1)}, {0}});
  steps.push_back(
      {Opcode::conv, Function::convolution_weight_gradient, true, false, {input(0), gradient}, {1}});
  if (op.inputs.size() > 2) steps.push_back(sum_over_rows(gradient, 2));
  return steps;
}

std::vector<BackwardStep> pool_steps(const Operator& op) {
  BackwardStep step{Opcode::pool_backward, op.function, false, false, {gradient}, {0}};
  if (op.function == Function::max_pool) step.reads.push_back(output(1));
  return {step};
}

std::vector<BackwardStep> lstm_steps() {
  const Operand gates{OperandRole::input_gradient, 0};
  return {
      {Opcode::lstm_backward, Function::none, false, false, {gradient, input(1), output(1), output(2)}, {0}},
      {Opcode::gemm, Function::none, true, false, {gates, output(0)}, {1}}};
}

// The gradients of parameters are sums over positions of what the way back computes anyway: one kernel.
std::vector<BackwardStep> scan_steps(const Operator& op) {
  BackwardStep step{Opcode::scan_backward, op.function, false, false, {gradient}, {}};
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    step.reads.push_back(input(static_cast<std::uint8_t>(i)));
    step.gradients_of.push_back(static_cast<std::uint8_t>(i));
  }
  for (std::size_t o = 1; o < op.outputs.size(); ++o)
    step.reads.push_back(output(static_cast<std::uint8_t>(o)));
  return {step};
}

// One kernel writes every part.
std::vector<BackwardStep> concatenate_steps(const Operator& op) {
  BackwardStep step{Opcode::map, Function::concatenate_backward, false, false, {gradient}, {}};
  for (std::size_t i = 0; i < op.inputs.size(); ++i)
    step.gradients_of.push_back(static_cast<std::uint8_t>(i));
  return {step};
}

// Of a copy into other places: back from all of them.
std::vector<BackwardStep> copy_steps(const Operator& op) {
  BackwardStep step{Opcode::copy, Function::none, false, false, {}, {0}};
  for (std::size_t o = 0; o < op.outputs.size(); ++o)
    step.reads.push_back({OperandRole::output_gradient, static_cast<std::uint8_t>(o)});
  return {step};
}

// A bias is an input that lacks dimensions of the first; a residual has them all.
bool is_bias(const Graph& graph, const Operator& op, std::size_t i) {
  return i > 0 && graph.tensors[op.inputs[i]].dims.size() < graph.tensors[op.inputs[0]].dims.size();
}

std::vector<BackwardStep> add_steps(const Graph& graph, const Operator& op) {
  std::vector<BackwardStep> steps;
  if (op.dropout > 0)
    steps.push_back({Opcode::map, Function::add_backward, false, false, {gradient, output(1)}, {0}});
  else
    steps.push_back({Opcode::copy, Function::none, false, true, {gradient}, {0}});
  std::vector<BackwardStep> biases;
  for (std::size_t i = 1; i < op.inputs.size(); ++i) {
    const auto index = static_cast<std::uint8_t>(i);
    if (!is_bias(graph, op, i)) {
      const bool whole = graph.tensors[op.inputs[i]].dims == graph.tensors[op.inputs[0]].dims;
      steps.push_back({Opcode::copy, Function::none, false, /*alias=*/whole, {gradient}, {index}});
      continue;
    }
    biases.push_back(sum_over_rows({OperandRole::input_gradient, 0}, index));
  }
  steps.insert(steps.end(), biases.begin(), biases.end());
  return steps;
}

std::vector<BackwardStep> activation_steps(const Operator& op, Function function) {
  BackwardStep step{Opcode::map, function, false, false, {gradient}, {0}};
  for (std::size_t i = 0; i < op.inputs.size(); ++i)
    step.reads.push_back(input(static_cast<std::uint8_t>(i)));
  std::vector<BackwardStep> steps{step};
  if (op.inputs.size() > 1) steps.push_back(sum_over_rows({OperandRole::input_gradient, 0}, 1));
  return steps;
}

// From the output alone: sign of the rectified value, or the capped one.
std::vector<BackwardStep> from_output_steps(const Operator& op, Function function) {
  std::vector<BackwardStep> steps{{Opcode::map, function, false, false, {gradient, output(0)}, {0}}};
  if (op.inputs.size() > 1) steps.push_back(sum_over_rows({OperandRole::input_gradient, 0}, 1));
  return steps;
}

// Of a product of two inputs, of which a function of one is a factor: gradients of both.
std::vector<BackwardStep> gate_steps(Function function) {
  return {{Opcode::map, function, false, false, {gradient, input(0), input(1)}, {0, 1}}};
}

std::vector<BackwardStep> map_steps(const Graph& graph, const Operator& op) {
  switch (op.function) {
    case Function::add: return add_steps(graph, op);
    case Function::gelu: return activation_steps(op, Function::gelu_backward);
    case Function::swiglu: return activation_steps(op, Function::swiglu_backward);
    case Function::squared_relu: return activation_steps(op, Function::squared_relu_backward);
    case Function::geglu: return activation_steps(op, Function::geglu_backward);
    case Function::relu: return from_output_steps(op, Function::relu_backward);
    case Function::tanh: return from_output_steps(op, Function::tanh_backward);
    case Function::concatenate: return concatenate_steps(op);
    case Function::select: return {{Opcode::map, Function::select_backward, false, false, {gradient}, {0}}};
    case Function::soft_cap: return from_output_steps(op, Function::soft_cap_backward);
    case Function::gated_silu: return gate_steps(Function::gated_silu_backward);
    case Function::gated_gelu: return gate_steps(Function::gated_gelu_backward);
    case Function::gated_sigmoid: return gate_steps(Function::gated_sigmoid_backward);
    case Function::sigmoid_gate: return gate_steps(Function::sigmoid_gate_backward);
    case Function::scale_rows: return gate_steps(Function::scale_rows_backward);
    case Function::weigh_rows:  // from what the product behind it keeps anyway
      return {{Opcode::map,
               Function::weigh_rows_backward,
               false,
               false,
               {gradient, {OperandRole::output_value, 0}, input(1)},
               {0, 1}}};
    case Function::dispatch_masks:
      return {{Opcode::map, Function::dispatch_masks_backward, false, false, {gradient, input(1)}, {0}}};
    case Function::clip:
      return {{Opcode::map, Function::clip_backward, false, false, {gradient, input(0)}, {0}}};
    case Function::scale_queries:
    case Function::scale: return {{Opcode::map, op.function, false, false, {gradient}, {0}}};
    case Function::mla_rope:
      return {{Opcode::map,
               Function::mla_rope_backward,
               false,
               false,
               {gradient, {OperandRole::output_gradient, 1}},
               {0, 1}}};
    case Function::split:
      return {
          {Opcode::map, Function::concat, false, false, {gradient, {OperandRole::output_gradient, 1}}, {0}}};
    case Function::concat: return {{Opcode::map, Function::split, false, false, {gradient}, {0, 1}}};
    case Function::rope: return {{Opcode::map, Function::rope_backward, false, false, {gradient}, {0}}};
    // The gradient is written in the narrow type at once: cross entropy's backward kernel casts as it stores.
    case Function::cast: return {{Opcode::copy, Function::none, false, true, {gradient}, {0}}};
    case Function::log_loss:
      return {{Opcode::cross_entropy_backward,
               Function::none,
               false,
               false,
               {input(0), input(1), input(2), input(3)},
               {2}}};
    default: return {};
  }
}

std::vector<BackwardStep> all_steps(const Graph& graph, const Operator& op) {
  switch (op.opcode) {
    case Opcode::gemm: return gemm_steps(graph, op);
    case Opcode::attention: return attention_steps(op);
    case Opcode::norm: return norm_steps(op);
    case Opcode::copy: return copy_steps(op);
    case Opcode::map: return map_steps(graph, op);
    case Opcode::gather: return gather_steps(graph, op);
    case Opcode::conv: return convolution_steps(graph, op);
    case Opcode::pool: return pool_steps(op);
    case Opcode::lstm: return lstm_steps();
    case Opcode::scan: return scan_steps(op);
    case Opcode::route: return route_steps(op);
    default: return {};
  }
}

// Whose parts are alike, so that one by itself does not tell whose gradient it is.
bool has_like_parts(Function function) {
  return function == Function::split || function == Function::gated_silu_backward ||
         function == Function::gated_gelu_backward || function == Function::gated_sigmoid_backward;
}

// Without the gradients that nobody wants. From the last step to the first: a step may read an input's
// gradient that an earlier one writes.
std::vector<BackwardStep> without_frozen(const Graph& graph, const Operator& op,
                                         std::vector<BackwardStep> steps) {
  std::vector<bool> read(op.inputs.size(), false);
  std::vector<BackwardStep> kept;
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    std::erase_if(step->gradients_of,
                  [&](std::uint8_t i) { return graph.tensors[op.inputs[i]].frozen && !read[i]; });
    if (step->gradients_of.empty()) continue;
    if (has_like_parts(step->function) && step->gradients_of.size() == 1)
      step->constants = {static_cast<double>(step->gradients_of.front())};
    step->weight = std::all_of(step->gradients_of.begin(), step->gradients_of.end(), [&](std::uint8_t i) {
      return graph.tensors[op.inputs[i]].kind == TensorKind::parameter;
    });
    for (const Operand& operand : step->reads)
      if (operand.role == OperandRole::input_gradient) read[operand.index] = true;
    kept.push_back(std::move(*step));
  }
  std::reverse(kept.begin(), kept.end());
  return kept;
}

}  // namespace

std::vector<BackwardStep> backward_steps(const Graph& graph, const Operator& op) {
  if (op.discarded) return {};
  std::vector<BackwardStep> steps = all_steps(graph, op);
  const bool any_frozen = std::any_of(op.inputs.begin(), op.inputs.end(), [&](TensorId input) {
    return graph.tensors[input].frozen && graph.tensors[input].kind != TensorKind::index;
  });
  return any_frozen ? without_frozen(graph, op, std::move(steps)) : steps;
}

}  // namespace simrun
