#include "schedules/fp8_linears.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "models/backward.h"
#include "models/linear_layers.h"
#include "schedules/plan_frame.h"

namespace simrun {
namespace {

constexpr std::int32_t microscaling_block = 32;  // OCP Microscaling Formats 1.0, section 5
constexpr std::int32_t nvfp4_block = 16;         // arXiv 2509.25149, section 2
// Extents of mxfp8 are whole blocks; rows of fp4 are multiples of the 16 bytes that a tensor core loads.
constexpr std::int64_t small_block_unit = 32;
// DeepSeek-V3, section 3.3.2: 1 x 128 of activations, 128 x 128 of weights.
constexpr std::int32_t activation_block = 128, weight_block = 128 * 128;

std::int32_t scale_block(Fp8Recipe recipe, bool is_weight) {
  if (scales_whole_tensors(recipe)) return 0;
  if (recipe == Fp8Recipe::mxfp8) return microscaling_block;
  if (recipe == Fp8Recipe::nvfp4) return nvfp4_block;
  return is_weight ? weight_block : activation_block;
}

// One side of a linear layer's weight on one rank: what it contracts with the input, or the output's part.
struct Side {
  const char* name;
  bool contracted;
};

std::int64_t local_features(const Graph& graph, const Operator& op, const Layout& layout,
                            const DeviceMesh& mesh, const Side& side) {
  const std::vector<DimensionId>& of_input = graph.tensors[op.inputs[0]].dims;
  const std::vector<DimensionId>& of_output = graph.tensors[op.outputs[0]].dims;
  const Layout local = input_layout(graph, op, layout, 1);
  std::int64_t extent = 1;
  for (const DimensionId dim : graph.tensors[op.inputs[1]].dims) {
    const bool in = has(of_input, dim), out = has(of_output, dim);
    if (in != out && in == side.contracted) extent *= local_extent(graph, local, dim, mesh.mesh);
  }
  return extent;
}

}  // namespace

Fp8Linears fp8_linears(const Job& job, const Graph& graph, const std::vector<Layout>& layouts,
                       const DeviceMesh& mesh) {
  const Fp8Config& config = *job.training.fp8;
  const bool small_blocks = config.recipe == Fp8Recipe::mxfp8 || config.recipe == Fp8Recipe::nvfp4;
  const std::int64_t unit = small_blocks ? small_block_unit : 16;
  Fp8Linears fp8;
  fp8.recipe = config.recipe;
  fp8.two_copies = !scales_whole_tensors(config.recipe) || !job.cluster.gpu.mxfp8;
  fp8.parameters = config.param_gather;
  fp8.stream = scale_stream(job);
  for (std::size_t axis = 0; axis < mesh.mesh.axes.size(); ++axis)
    if (mesh.mesh.axes[axis].size > 1) fp8.all_ranks.push_back(static_cast<AxisId>(axis));
  for (std::size_t o = 0; o < graph.operators.size(); ++o) {
    const Operator& op = graph.operators[o];
    fp8.is_linear.push_back(is_linear_layer(graph, op));
    if (!fp8.is_linear.back()) continue;
    for (const Side& side : {Side{"input features", true}, Side{"output features", false}}) {
      const std::int64_t extent = local_features(graph, op, layouts[o], mesh, side);
      if (extent % unit != 0)
        throw std::invalid_argument(
            fmt::format("{}: {} {} of {} on a rank are no multiple of {}; {} would be, or precision: {}",
                        to_string(fp8.dtype()), extent, side.name, op.name, unit, (extent / unit + 1) * unit,
                        to_string(job.training.precision)));
    }
  }
  return fp8;
}

CodeStep Fp8Casts::step_at(const Place& place, Opcode opcode, Function function) {
  CodeStep step;
  step.opcode = opcode;
  step.function = function;
  step.phase = place.phase;
  step.layer = place.layer;
  step.region = place.region;
  return step;
}

ValueId Fp8Casts::add_copy(ValueId of, Phase phase, const char* suffix, std::int32_t scale_block) {
  Value copy = code_.values[of];
  copy.kind = phase == Phase::forward ? ValueKind::activation : ValueKind::backward;
  copy.dtype = context_.fp8->dtype();
  if (code_.values[of].dtype != copy.dtype) copy.name += fmt::format("_{}", to_string(copy.dtype));
  copy.name += suffix;
  copy.source = copy.column = no_index;
  copy.conversion = Opcode::free;
  copy.saved = copy.arrived = false;
  copy.quantised_from = of;
  copy.scale_block = scale_block;
  code_.values.push_back(std::move(copy));
  return static_cast<ValueId>(code_.values.size() - 1);
}

ValueId Fp8Casts::add_numbers(ValueId like, Phase phase, const char* suffix, std::int64_t count) {
  Value numbers;
  numbers.tensor = code_.values[like].tensor;
  numbers.kind = phase == Phase::forward ? ValueKind::activation : ValueKind::backward;
  numbers.dtype = Dtype::fp32;
  numbers.name = code_.values[like].name + suffix;
  numbers.flat_elements = count;
  code_.values.push_back(std::move(numbers));
  return static_cast<ValueId>(code_.values.size() - 1);
}

// Tensorwise: a pass over the value; ranks that gather the copies find their common largest value.
ValueId Fp8Casts::largest_of(ValueId value, const Place& place) {
  const std::string& name = context_.graph.tensors[code_.values[value].tensor].name;
  CodeStep step = step_at(place, Opcode::reduce, Function::max);
  step.inputs = {value};
  step.outputs = {add_numbers(value, place.phase, "_largest", 1)};
  step.label = fmt::format("{} {} largest", name, to_string(context_.fp8->dtype()));
  code_.values[step.outputs.front()].region = place.region;
  place.steps.push_back(step);
  if (place.shared_over.empty()) return step.outputs.front();
  CodeStep agree = step;
  agree.opcode = Opcode::all_reduce;
  agree.function = Function::none;
  agree.reduction = Reduction::max;
  agree.axes = place.shared_over;
  agree.stream = context_.stream_of_axis[place.shared_over.front()];
  agree.cause = fmt::format("{}: one {} scale for what is gathered", name, to_string(context_.fp8->dtype()));
  agree.inputs = step.outputs;
  agree.outputs = {add_numbers(value, place.phase, "_largest_of_all", 1)};
  code_.values[agree.outputs.front()].region = place.region;
  place.steps.push_back(agree);
  return agree.outputs.front();
}

QuantisedValue Fp8Casts::cast(ValueId value, Copies wanted, Place place) {
  const Fp8Linears& fp8 = *context_.fp8;
  const std::int32_t block = scale_block(fp8.recipe, false);
  CodeStep step = step_at(place, Opcode::map, Function::cast);
  step.inputs = {value};
  step.label = fmt::format("{} {} cast", context_.graph.tensors[code_.values[value].tensor].name,
                           to_string(fp8.dtype()));
  if (looks_before_cast(fp8.recipe)) step.inputs.push_back(largest_of(value, place));
  QuantisedValue made;
  if (wanted.row || !fp8.two_copies) made.row = add_copy(value, place.phase, "", block);
  if (wanted.column)
    made.column = fp8.two_copies ? add_copy(value, place.phase, "_columns", block) : made.row;
  for (const ValueId copy : {made.row, made.column}) {
    if (copy == no_index || (!step.outputs.empty() && step.outputs.front() == copy)) continue;
    code_.values[copy].region = place.region;
    step.outputs.push_back(copy);
  }
  if (made.row != no_index) code_.values[made.row].column = made.column;
  if (fp8.recipe == Fp8Recipe::delayed) {
    ++tensors_;
    if (largest_ == no_index) largest_ = add_numbers(value, place.phase, "_largest", 1);
    step.outputs.push_back(largest_);
  }
  place.steps.push_back(std::move(step));
  return made;
}

ValueId Fp8Casts::transposed(ValueId row, Place place) {
  CodeStep step = step_at(place, Opcode::map, Function::cast);
  step.inputs = {row};
  step.outputs = {add_copy(row, place.phase, "_columns", code_.values[row].scale_block)};
  step.label = context_.graph.tensors[code_.values[row].tensor].name + " fp8 transpose";
  const ValueId made = step.outputs.front();
  place.steps.push_back(std::move(step));
  return made;
}

const QuantisedParameter& Fp8Casts::weight(ValueId parameter, std::int32_t layer) {
  for (const QuantisedParameter& known : code_.quantised)
    if (known.weight == parameter) return known;
  const Fp8Linears& fp8 = *context_.fp8;
  const std::int32_t block = scale_block(fp8.recipe, true);
  const auto copy = [&](const char* suffix) {
    const ValueId made = add_copy(parameter, Phase::forward, suffix, block);
    code_.values[made].kind = ValueKind::parameter;
    return made;
  };
  QuantisedParameter made{parameter, parameter, parameter, layer};
  if (fp8.parameters) {
    code_.values[parameter].dtype = fp8.dtype();
    code_.values[parameter].scale_block = block;
  } else {
    made.row = made.column = copy("");
    ++tensors_;
  }
  if (fp8.two_copies) made.column = copy("_columns");
  code_.quantised.push_back(made);
  return code_.quantised.back();
}

Fp8Casts::Copies copies_of_gradient(const Graph& graph, const Operator& linear) {
  Fp8Casts::Copies copies{false, false};
  for (const BackwardStep& step : backward_steps(graph, linear))
    if (step.opcode == Opcode::gemm) (step.weight ? copies.column : copies.row) = true;
  return copies;
}

Fp8Casts::Copies copies_gathered_of_gradient(const ChunkContext& context, TensorId output) {
  Fp8Casts::Copies read{false, false};
  for (const std::size_t o : context.operators) {
    const Operator& op = context.graph.operators[o];
    if (!context.fp8->is_linear[o] || op.outputs[0] != output) continue;
    const Fp8Casts::Copies copies = copies_of_gradient(context.graph, op);
    read.row = read.row || copies.row;
    read.column = read.column || copies.column;
  }
  const bool is_whole = scales_whole_tensors(context.fp8->recipe);
  return {read.row || is_whole, read.column && !is_whole};
}

std::vector<AxisId> fp8_gather_axes(const ChunkContext& context, const ChunkCode& code, TensorId output,
                                    const std::vector<ValueId>& summands, const Layout& wanted) {
  if (context.fp8 == nullptr) return {};
  const bool is_small = context.fp8->dtype() == Dtype::fp4;
  if (!is_small && !scales_whole_tensors(context.fp8->recipe)) return {};
  const Layout& layout = code.values[summands.front()].layout;
  const bool alike = std::all_of(summands.begin(), summands.end(),
                                 [&](ValueId v) { return code.values[v].layout == layout; });
  const bool is_read = std::any_of(context.operators.begin(), context.operators.end(), [&](std::size_t o) {
    const Operator& op = context.graph.operators[o];
    return context.fp8->is_linear[o] && op.outputs[0] == output && op.inputs.size() == 2;
  });
  if (!alike || !is_read) return {};
  std::vector<AxisId> axes;
  for (const Conversion& step : conversions(layout, wanted)) {
    if (step.opcode != Opcode::all_gather) return {};
    axes.insert(axes.end(), step.axes.begin(), step.axes.end());
  }
  return axes;
}

void Fp8Casts::update_scales(Place place) {
  if (largest_ == no_index) return;
  const bool forward = place.phase == Phase::forward;
  const auto name = [&](ValueId value, const char* words) {
    code_.values[value].name = fmt::format("fp8 {}{}", words, forward ? "" : " of gradients");
    code_.values[value].flat_elements = tensors_;
  };
  name(largest_, "largest values");
  if (forward) code_.largest = largest_;
  CodeStep step;
  step.phase = place.phase;
  ValueId largest = largest_;
  if (const std::vector<AxisId>& axes = context_.fp8->all_ranks; !axes.empty()) {
    largest = add_numbers(largest_, place.phase, "", tensors_);
    name(largest, "largest values of all ranks");
    step.opcode = Opcode::all_reduce;
    step.reduction = Reduction::max;
    step.axes = axes;
    step.stream = context_.fp8->stream;
    step.cause = fmt::format("fp8 scales of {}: the largest values over all ranks",
                             forward ? "inputs and weights" : "gradients");
    step.inputs = {largest_};
    step.outputs = {largest};
    step.label = "fp8 largest values";
    place.steps.push_back(step);
  }
  const ValueId scales = add_numbers(largest_, place.phase, "", tensors_);
  name(scales, "scales");
  CodeStep update;
  update.function = Function::scale;
  update.phase = place.phase;
  update.inputs = {largest};
  update.outputs = {scales};
  update.label = "fp8 scales";
  place.steps.push_back(std::move(update));
  largest_ = no_index;
  tensors_ = 0;
}

}  // namespace simrun
