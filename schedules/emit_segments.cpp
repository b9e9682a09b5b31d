#include "schedules/emit_segments.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <set>

#include "schedules/border_pieces.h"
#include "schedules/bucket_reductions.h"
#include "schedules/flat_buffer.h"
#include "schedules/offloaded_activations.h"
#include "schedules/plan_frame.h"
#include "schedules/weight_casts.h"
#include "schedules/weight_windows.h"

namespace simrun {
namespace {

bool is_among(const std::vector<ValueId>& values, ValueId v) {
  return std::find(values.begin(), values.end(), v) != values.end();
}

Scope scope_of(const ChunkCode& code, const BackwardSplit* split, ValueId v) {
  const Value& value = code.values[v];
  const bool crosses = value.saved || value.arrived || is_among(code.outputs, v) ||
                       is_among(code.input_gradients, v) || (split != nullptr && split->crosses[v]);
  return crosses ? Scope::microbatch : Scope::pass;
}

Category category_of(const Value& value) {
  const bool own = value.conversion == Opcode::free || value.conversion == Opcode::map;
  const bool communicated = !own && !value.saved;
  return communicated ? Category::comm : Category::activations;
}

Buffer buffer_of_value(const Graph& graph, const Value& value, const Mesh& mesh) {
  Buffer buffer;
  buffer.name = value.name;
  buffer.dtype = value.dtype;
  buffer.scale_block = value.scale_block;
  if (value.flat_elements > 0) {
    // Behind the graph's dimensions is "elements".
    buffer.dims = {{static_cast<std::uint16_t>(graph.dimensions.size()), -1, value.flat_elements}};
    return buffer;
  }
  for (const DimensionId dim : graph.tensors[value.tensor].dims) {
    buffer.dims.push_back({dim, -1, local_extent(graph, value.layout, dim, mesh)});
    const DimensionSplit* split = value.layout.split_of(dim);
    std::string axes;
    if (split != nullptr)
      for (const AxisId axis : split->axes) axes += (axes.empty() ? "" : ",") + mesh.axes[axis].name;
    buffer.split.push_back(axes);
  }
  return buffer;
}

std::int64_t local_elements(const Graph& graph, const Value& value, const Mesh& mesh) {
  std::int64_t product = 1;
  for (const DimensionId dim : graph.tensors[value.tensor].dims)
    product *= local_extent(graph, value.layout, dim, mesh);
  return product;
}

void declare_parameters(Plan& plan, const ChunkSource& source, ChunkEmission& emission,
                        const ParameterBucket& bucket) {
  const ChunkCode& code = source.code;
  std::int64_t offset = 0;
  for (const std::size_t p : bucket.members) {
    const auto view = [&](ValueId v, Index parent) {
      Buffer buffer = buffer_of_value(source.graph, code.values[v], source.mesh());
      buffer.name = emission.name + " " + buffer.name;
      buffer.category = plan.buffers[parent].category;
      buffer.scope = plan.buffers[parent].scope;
      buffer.dtype = plan.buffers[parent].dtype;
      buffer.scale_block = plan.buffers[parent].scale_block;
      buffer.parent = parent;
      buffer.parent_offset = offset;
      buffer.parameter = code.values[v].tensor;
      plan.buffers.push_back(std::move(buffer));
      emission.buffer_of[v] = static_cast<Index>(plan.buffers.size() - 1);
    };
    view(code.parameters[p], bucket.weights);
    if (!bucket.frozen) view(code.parameter_gradients[p], bucket.gradients);
    offset += local_elements(source.graph, code.values[code.parameters[p]], source.mesh());
  }
}

// Copies of weights in fp8 live as long as the weights that they are cast from.
void declare_weight_copies(Plan& plan, const ChunkSource& source, ChunkEmission& emission) {
  const ChunkCode& code = source.code;
  for (const QuantisedParameter& parameter : code.quantised)
    for (const ValueId copy : {parameter.row, parameter.column}) {
      if (!parameter.is_copy(copy) || emission.buffer_of[copy] != no_index) continue;
      Buffer buffer = buffer_of_value(source.graph, code.values[copy], source.mesh());
      buffer.name = emission.name + " " + buffer.name;
      buffer.category = Category::weights;
      buffer.scope = plan.buffers[emission.buffer_of[parameter.weight]].scope;
      plan.buffers.push_back(std::move(buffer));
      emission.buffer_of[copy] = static_cast<Index>(plan.buffers.size() - 1);
    }
  if (!source.scales_by_largest_weight) return;
  emission.largest_of_weight =
      add_flat_buffer(plan, emission.name + " largest weight", Category::weights, Dtype::fp32, 1);
  plan.buffers[emission.largest_of_weight].scope = Scope::pass;
}

// Values whose last mention among the steps, run in this order, is the s-th of them, at [s].
std::vector<std::vector<ValueId>> last_mentions(const ChunkCode& code, const std::vector<CodeStep>& steps,
                                                const std::vector<std::size_t>& order) {
  std::vector<std::size_t> last(code.values.size(), order.size());
  for (std::size_t s = 0; s < order.size(); ++s) {
    for (const ValueId value : steps[order[s]].inputs) last[value] = s;
    for (const ValueId value : steps[order[s]].outputs) last[value] = s;
    for (const ValueId value : steps[order[s]].waits_for) last[value] = s;
  }
  std::vector<std::vector<ValueId>> result(order.size() + 1);
  for (std::size_t v = 0; v < last.size(); ++v) result[last[v]].push_back(static_cast<ValueId>(v));
  return result;
}

std::vector<std::size_t> all_of(const std::vector<CodeStep>& steps) {
  std::vector<std::size_t> order(steps.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  return order;
}

Instruction instruction_of(const ChunkEmission& emission, const CodeStep& step, CommunicationTable& table) {
  Instruction instruction;
  instruction.opcode = step.opcode;
  instruction.function = step.function;
  instruction.phase = step.phase;
  instruction.stream = step.stream;
  instruction.causal = step.causal;
  instruction.part = step.part;
  instruction.layer = step.layer;
  instruction.dropout = step.dropout;
  instruction.label = step.label;
  instruction.work_table = step.work_table;
  instruction.soft_cap = step.soft_cap;
  instruction.alibi = step.alibi;
  instruction.constants = step.constants;
  for (const ValueId value : step.inputs) instruction.inputs.push_back(emission.buffer_of[value]);
  for (const ValueId value : step.outputs) instruction.outputs.push_back(emission.buffer_of[value]);
  for (const ValueId value : step.waits_for) instruction.waits_for.push_back(emission.buffer_of[value]);
  if (is_communication(step.opcode)) {
    Communication communication;
    communication.group.axes = step.axes;
    communication.peer = step.peer;
    communication.reduction = step.reduction;
    communication.cause = step.cause;
    instruction.communication = table.add(communication);
  }
  return instruction;
}

Instruction free_of(const ChunkEmission& emission, const std::vector<ValueId>& values, Phase phase) {
  Instruction instruction;
  instruction.opcode = Opcode::free;
  instruction.phase = phase;
  for (const ValueId value : values) instruction.inputs.push_back(emission.buffer_of[value]);
  return instruction;
}

void append(std::vector<Instruction>& instructions, std::vector<Instruction> more) {
  std::ranges::move(more, std::back_inserter(instructions));
}

bool is_run_scope(const Value& value) {
  return value.kind == ValueKind::parameter || value.kind == ValueKind::parameter_gradient;
}

}  // namespace

Index CommunicationTable::add(const Communication& communication) {
  const Peer& peer = communication.peer;
  std::string key = fmt::format("{} {} {} {} {} {} {} {} {}{} {}", communication.group.mesh,
                                fmt::join(communication.group.axes, ","),
                                fmt::join(communication.group.pipeline_ranks, ","), peer.pipeline_rank,
                                static_cast<int>(communication.reduction), communication.channel,
                                communication.cause, fmt::join(peer.axes, ","), peer.offset,
                                peer.wrap ? " wraps" : "", fmt::join(communication.servers.members, ","));
  const auto [known, is_new] =
      known_.emplace(std::move(key), static_cast<Index>(plan_.communications.size()));
  if (is_new) plan_.communications.push_back(communication);
  return known->second;
}

// By parameter, BucketRules::written_early.
static std::vector<bool> written_early(const ChunkCode& code, const BackwardSplit& split) {
  std::set<ValueId> written;
  for (const std::size_t s : split.input)
    written.insert(code.backward[s].outputs.begin(), code.backward[s].outputs.end());
  std::vector<bool> early;
  for (const ValueId gradient : code.parameter_gradients) early.push_back(written.contains(gradient));
  return early;
}

ChunkEmission declare_buffers(Plan& plan, const ChunkSource& source) {
  const ChunkCode& code = source.code;
  ChunkEmission emission;
  emission.chunk = source.chunk;
  emission.name = source.name;
  emission.buffer_of.assign(code.values.size(), no_index);
  emission.kept_before = source.kept_before;
  for (std::size_t i = 0; i < source.inputs.size(); ++i) {
    emission.buffer_of[code.inputs[i]] = source.inputs[i];
    if (source.input_gradients[i] != no_index)
      emission.buffer_of[code.input_gradients[i]] = source.input_gradients[i];
  }
  std::vector<std::int64_t> elements;
  BucketRules rules = source.rules;
  if (source.split != nullptr) rules.written_early = written_early(code, *source.split);
  for (std::size_t p = 0; p < code.parameters.size(); ++p) {
    const ValueId value = code.parameters[p];
    elements.push_back(local_elements(source.graph, code.values[value], source.mesh()));
    if (source.shared_weights == no_index || code.values[value].tensor != rules.tied_tensor) continue;
    rules.elsewhere = p;
    emission.buffer_of[value] = source.shared_weights;
    emission.buffer_of[code.parameter_gradients[p]] = source.shared_gradients;
  }
  const UpdateRule update = rules.optimizer.name;
  if (update == UpdateRule::adafactor || update == UpdateRule::muon)
    rules.matrices = parameter_matrices(source.graph, code, source.mesh());
  emission.buckets = make_buckets(code, elements, rules);
  for (std::size_t b = 0; b < emission.buckets.size(); ++b) {
    add_bucket_buffers(plan, emission.buckets[b], fmt::format("{} bucket {}", emission.name, b),
                       source.precision, source.rules);
    declare_parameters(plan, source, emission, emission.buckets[b]);
  }
  declare_weight_copies(plan, source, emission);
  for (std::size_t v = 0; v < code.values.size(); ++v) {
    const Value& value = code.values[v];
    if (is_run_scope(value) || emission.buffer_of[v] != no_index) continue;
    Buffer buffer = buffer_of_value(source.graph, value, source.mesh());
    buffer.category = category_of(value);
    buffer.scope = scope_of(code, source.split, static_cast<ValueId>(v));
    plan.buffers.push_back(std::move(buffer));
    emission.buffer_of[v] = static_cast<Index>(plan.buffers.size() - 1);
  }
  if (source.offloaded_layers > 0) {
    std::vector<ValueId> stays = code.outputs;
    if (!source.inputs.empty()) stays.insert(stays.end(), code.inputs.begin(), code.inputs.end());
    add_host_copies(plan, emission, code, stays, source.offloaded_layers);
    emission.to_host = stream_named(plan.streams, "to_host");
    emission.from_host = stream_named(plan.streams, "from_host");
  }
  return emission;
}

std::vector<Instruction> emit_forward(const ChunkEmission& emission, const ChunkCode& code,
                                      CommunicationTable& table, const WeightGathers& weights,
                                      WeightUse use) {
  const std::vector<std::size_t> order = all_of(code.forward);
  const std::vector<std::vector<ValueId>> last = last_mentions(code, code.forward, order);
  WeightWindows windows(emission, code, weights, use);
  OffloadedActivations offloaded(emission, code);
  windows.find(code.forward, order, 0, order.size());
  WeightCasts casts(emission, code, weights, use);
  casts.find(code.forward, order, 0, order.size());
  std::vector<Instruction> instructions;
  for (std::size_t s = 0; s < code.forward.size(); ++s) {
    windows.before(s, instructions);
    offloaded.before_forward(s, instructions);
    casts.before(s, Phase::forward, instructions);
    append(instructions,
           in_pieces(emission, instruction_of(emission, code.forward[s], table), code.forward[s].pieces));
    offloaded.let_wait(s, instructions.back());
    std::vector<ValueId> dead;
    for (const ValueId v : last[s]) {
      const Value& value = code.values[v];
      const bool kept = value.saved || is_among(code.outputs, v) || is_among(emission.kept_before, v);
      if (value.kind == ValueKind::activation && !kept) dead.push_back(v);
    }
    if (!dead.empty()) instructions.push_back(free_of(emission, dead, Phase::forward));
    offloaded.behind_forward(s, instructions);
    casts.behind(s, Phase::forward, instructions);
    windows.behind(s, Phase::forward, instructions);
  }
  return instructions;
}

namespace {

// The steps of a part as [begin, end) of an order over all backward steps.
struct PartOrder {
  std::vector<std::size_t> order;
  std::size_t begin = 0, end = 0;
};
PartOrder order_of(const ChunkCode& code, const BackwardPass& pass) {
  if (pass.variant.part == BackwardPart::full) {
    PartOrder all{all_of(code.backward)};
    all.end = all.order.size();
    return all;
  }
  const BackwardSplit& split = *pass.split;
  PartOrder part{split.input, 0, split.input.size()};
  part.order.insert(part.order.end(), split.weight.begin(), split.weight.end());
  if (pass.variant.part == BackwardPart::weight) {
    part.begin = part.end;
    part.end = part.order.size();
  }
  return part;
}

// Which main gradients hold something when the pass begins: it adds to those.
// Where gradients are summed over microbatches elsewhere (ZeRO-2, 3), every microbatch writes afresh.
std::vector<bool> written_before(const ChunkEmission& emission, const ChunkCode& code,
                                 const BackwardPass& pass) {
  std::vector<bool> per_pass(code.values.size(), false);
  for (const ParameterBucket& bucket : emission.buckets)
    for (const std::size_t p : bucket.members)
      per_pass[code.parameter_gradients[p]] = bucket.reduced != no_index;
  std::vector<bool> written(code.values.size());
  for (std::size_t v = 0; v < written.size(); ++v) written[v] = !pass.variant.first && !per_pass[v];
  if (pass.split != nullptr)
    for (const std::size_t s : pass.split->input)
      for (const ValueId output : code.backward[s].outputs)
        written[output] =
            pass.variant.part == BackwardPart::weight || (!pass.variant.first_input && !per_pass[output]);
  if (pass.shared_gradient != no_index && !per_pass[pass.shared_gradient])
    written[pass.shared_gradient] = !pass.variant.first_shared;
  return written;
}

}  // namespace

std::vector<Instruction> emit_backward(const ChunkEmission& emission, const ChunkCode& code,
                                       CommunicationTable& table, const BackwardPass& pass) {
  const PartOrder part = order_of(code, pass);
  const std::vector<std::vector<ValueId>> last = last_mentions(code, code.backward, part.order);
  std::vector<bool> written = written_before(emission, code, pass);
  WeightWindows windows(emission, code, pass.weights, pass.variant.weights);
  windows.find(code.backward, part.order, part.begin, part.end);
  WeightCasts casts(emission, code, pass.weights, pass.variant.weights);
  casts.find(code.backward, part.order, part.begin, part.end);
  OffloadedActivations offloaded(emission, code);
  offloaded.find(code.backward, part.order, part.begin, part.end);
  BucketReductions reductions(emission, pass.reductions);
  std::vector<Instruction> instructions;
  for (std::size_t s = part.begin; s < part.end; ++s) {
    const CodeStep& step = code.backward[part.order[s]];
    offloaded.before_backward(s, instructions);
    windows.before(s, instructions);
    casts.before(s, step.phase, instructions);
    Instruction instruction = instruction_of(emission, step, table);
    for (const ValueId output : step.outputs)
      if (code.values[output].kind == ValueKind::parameter_gradient) {
        instruction.accumulate = written[output];
        written[output] = true;
      }
    append(instructions, in_pieces(emission, std::move(instruction), step.pieces));
    std::vector<ValueId> dead;
    for (const ValueId v : last[s]) {
      const bool kept = is_among(code.input_gradients, v) || is_among(emission.kept_before, v);
      if (!is_run_scope(code.values[v]) && !kept) dead.push_back(v);
    }
    if (!dead.empty()) instructions.push_back(free_of(emission, dead, step.phase));
    casts.behind(s, step.phase, instructions);
    windows.behind(s, step.phase, instructions);
    reductions.complete(part.order[s], instructions);
  }
  reductions.complete(code.backward.size(), instructions);
  reductions.flush(instructions);
  return instructions;
}

}  // namespace simrun
