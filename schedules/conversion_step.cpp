#include "schedules/conversion_step.h"

#include <fmt/format.h>

#include <utility>

namespace simrun {
namespace {

std::uint8_t stream_of(const ChunkContext& context, TensorId tensor, const Conversion& conversion,
                       bool of_all_tokens) {
  if (conversion.opcode == Opcode::copy) return compute_stream;
  return of_all_tokens || has_dimension(context.graph, tensor, "experts")
             ? context.expert_stream
             : context.stream_of_axis[conversion.axes.front()];
}

}  // namespace

CodeStep operator_step(const Operator& op) {
  CodeStep step;
  step.opcode = op.opcode;
  step.function = op.function;
  step.layer = op.layer;
  step.dropout = op.dropout;
  step.causal = op.causal;
  step.soft_cap = op.opcode == Opcode::attention && op.soft_cap > 0;
  step.alibi = op.alibi;
  step.constants = op.constants;
  step.label = op.name;
  return step;
}

CodeStep conversion_step(const ChunkContext& context, ChunkCode& code, ValueId value,
                         const Conversion& conversion, const ConvertedAs& as) {
  const std::string& tensor = context.graph.tensors[code.values[value].tensor].name;
  Value converted = code.values[value];  // of its type and quantisation
  converted.kind = as.kind;
  converted.layout = conversion.result;
  converted.name = tensor + as.suffix;
  converted.source = value;
  converted.conversion = conversion.opcode;
  converted.region = -1;
  converted.saved = converted.arrived = converted.frozen = false;
  converted.column = no_index;
  converted.flat_elements = 0;
  CodeStep step;
  step.opcode = conversion.opcode;
  step.axes = conversion.axes;
  step.reduction = conversion.reduction;
  step.stream = stream_of(context, converted.tensor, conversion, as.of_all_tokens);
  step.label = fmt::format("{}{} {}", tensor, as.label_suffix, to_string(conversion.opcode));
  step.cause = fmt::format("{}{}: {} -> {}", tensor, as.label_suffix,
                           describe(code.values[value].layout, context.graph, context.mesh),
                           describe(conversion.result, context.graph, context.mesh));
  step.inputs = {value};
  step.outputs = {static_cast<ValueId>(code.values.size())};
  code.values.push_back(std::move(converted));
  return step;
}

CodeStep broadcast_step(const ChunkContext& context, const ChunkCode& code, ValueId value,
                        const BorderBroadcast& broadcast) {
  const Value& of = code.values[value];
  CodeStep step;
  step.opcode = Opcode::broadcast;
  step.phase = of.kind == ValueKind::activation ? Phase::forward : Phase::backward_input;
  step.axes = broadcast.axes;
  step.pieces = broadcast.pieces;
  step.stream = context.stream_of_axis[broadcast.axes.front()];
  step.label = fmt::format("{} broadcast", of.name);
  step.cause = fmt::format("{}: from the first of {}, the only ones that exchange with the other stage{}",
                           of.name, context.mesh.words(broadcast.axes),
                           broadcast.pieces == 1 ? "" : fmt::format(", in {} chunks", broadcast.pieces));
  step.inputs = step.outputs = {value};
  return step;
}

}  // namespace simrun
