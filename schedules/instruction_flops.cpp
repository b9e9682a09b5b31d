#include "schedules/instruction_flops.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "models/flops.h"
#include "schedules/extent_tables.h"

namespace simrun {
namespace {

double gemm_flops(const Plan& plan, const Instruction& instruction) {
  std::vector<std::uint16_t> seen;
  double product = 2;
  for (std::size_t operand = 0; operand < 2; ++operand)
    for (const BufferDim& dim : plan.buffers[instruction.inputs[operand]].dims) {
      if (std::find(seen.begin(), seen.end(), dim.name) != seen.end()) continue;
      seen.push_back(dim.name);
      product *= mean_extent(plan, dim);
    }
  return product;
}

// Of the keys that the mask counts among the whole sequence's, the share of a block of it. The work table
// says what the mask leaves of this block, which does not count here: a ring's steps are as many blocks.
double keys_of_part(const Plan& plan, const Instruction& instruction) {
  double block = 1, ranks = 1;
  for (const Index input : instruction.inputs)
    for (const BufferDim& dim : plan.buffers[input].dims)
      if (plan.dimension_names[dim.name] == "key_sequence") block = mean_extent(plan, dim);
  if (!instruction.part.whole_keys)
    for (const std::uint8_t axis : instruction.part.axes)
      ranks *= static_cast<double>(plan.stages.front().meshes.front().axes.at(axis).size);
  return static_cast<double>(attended_keys(instruction.causal, std::llround(block * ranks))) / ranks;
}

// Packed q, k, v, or q alone, are the second operand of the backward kernel and the first of the forward one;
// every key is in them, or in k, the operand behind q.
double attention_flops(const Plan& plan, const Instruction& instruction) {
  const bool backward = instruction.opcode == Opcode::attention_backward;
  const Buffer& context = plan.buffers[backward ? instruction.inputs[0] : instruction.outputs[0]];
  const std::size_t at = backward ? 1 : 0;
  const Buffer& first = plan.buffers[instruction.inputs[at]];
  const bool packed = std::any_of(first.dims.begin(), first.dims.end(), [&](const BufferDim& dim) {
    return plan.dimension_names[dim.name] == "qkv";
  });
  double keys = 1;
  for (const BufferDim& dim : plan.buffers[instruction.inputs[packed ? at : at + 1]].dims)
    if (plan.dimension_names[dim.name] == "sequence") keys = mean_extent(plan, dim);
  // Unfused products cover the whole matrix, whatever the mask then hides.
  if (instruction.function != Function::unfused)
    keys = static_cast<double>(attended_keys(instruction.causal, std::llround(keys)));
  if (!instruction.part.axes.empty()) keys = keys_of_part(plan, instruction);
  const auto elements = [&](const Buffer& buffer) {
    double product = 1;
    for (const BufferDim& dim : buffer.dims) product *= mean_extent(plan, dim);
    return product;
  };
  const double values = elements(context);
  const double queries = packed ? values : elements(first);
  return (backward ? 4 : 2) * (queries + values) * keys;
}

double convolution_flops(const Plan& plan, const Instruction& instruction) {
  const ConvolutionOperands of = convolution_operands(instruction);
  const Buffer& weight = plan.buffers[of.weight];
  const std::int64_t products = weight.elements() / weight.dims.front().extent;  // per element of the output
  return 2 * static_cast<double>(plan.buffers[of.output].elements()) * static_cast<double>(products);
}

// Every gate of every step reads the hidden state before it; the gates' gradients are the backward's output.
double lstm_flops(const Plan& plan, const Instruction& instruction) {
  const bool backward = instruction.opcode == Opcode::lstm_backward;
  const Buffer& gates = plan.buffers[backward ? instruction.outputs[0] : instruction.inputs[0]];
  return 2 * static_cast<double>(gates.elements()) *
         static_cast<double>(plan.buffers[instruction.inputs[1]].dims.back().extent);
}

// As models/flops.h has it; the gradient, or the gated channels, and the convolution's weight.
double scan_flops(const Plan& plan, const Instruction& instruction) {
  const bool backward = instruction.opcode == Opcode::scan_backward;
  const ScanOperands of = scan_operands(instruction);
  const Buffer &channels = plan.buffers[of.channels], &weight = plan.buffers[of.weight];
  std::int64_t inner = 1;  // of a group of heads, or a key head
  for (std::size_t d = 3; d < channels.dims.size(); ++d) inner *= channels.dims[d].extent;
  const std::int64_t state = (weight.dims.at(1).extent - inner) / 2;
  return (backward ? 2 : 1) * scan_operations_of(instruction.function) *
         static_cast<double>(channels.elements()) * static_cast<double>(state);
}

}  // namespace

ScanOperands scan_operands(const Instruction& instruction) {
  if (instruction.opcode == Opcode::scan)
    return {instruction.outputs.at(0), instruction.inputs.at(0), instruction.inputs.at(1)};
  return {instruction.inputs.at(0), instruction.inputs.at(1), instruction.inputs.at(2)};
}

ConvolutionOperands convolution_operands(const Instruction& instruction) {
  const std::vector<Index>& in = instruction.inputs;
  const Index out = instruction.outputs.at(0);
  if (instruction.function == Function::convolution_input_gradient) return {in.at(0), out, in.at(1)};
  if (instruction.function == Function::convolution_weight_gradient) return {in.at(1), in.at(0), out};
  return {out, in.at(0), in.at(1)};
}

std::optional<MaskProducts> mask_products(const Plan& plan, const Instruction& instruction) {
  if (instruction.function != Function::dispatch && instruction.function != Function::combine) return {};
  const Buffer *mask = nullptr, *rows = nullptr;
  for (const std::vector<Index>* operands : {&instruction.inputs, &instruction.outputs})
    for (const Index operand : *operands) {
      const Buffer& buffer = plan.buffers[operand];
      if (buffer.dims.empty()) continue;
      if (plan.dimension_names[buffer.dims.back().name] == "mask_places") mask = &buffer;
      if (plan.dimension_names[buffer.dims.front().name] == "experts") rows = &buffer;
    }
  if (mask == nullptr || rows == nullptr) return {};
  MaskProducts products;
  products.places = std::max<std::int64_t>(mask->dims.back().extent, 1);
  products.hidden = std::max<std::int64_t>(rows->dims.back().extent, 1);
  const std::int64_t tokens = mask->elements() / products.places;
  products.groups = std::max<std::int64_t>(rows->elements() / products.hidden / products.places, 1);
  products.tokens = std::max<std::int64_t>(tokens / products.groups, 1);
  return products;
}

// A combine's gradients are those of the rows and of the mask.
static double mask_flops(const Plan& plan, const Instruction& instruction) {
  const std::optional<MaskProducts> of = mask_products(plan, instruction);
  if (!of) return 0;
  return 2.0 * static_cast<double>(instruction.outputs.size()) *
         static_cast<double>(of->groups * of->tokens) * static_cast<double>(of->places) *
         static_cast<double>(of->hidden);
}

static double whole_flops(const Plan& plan, const Instruction& instruction) {
  switch (instruction.opcode) {
    case Opcode::gemm: return gemm_flops(plan, instruction);
    case Opcode::attention:
    case Opcode::attention_backward: return attention_flops(plan, instruction);
    case Opcode::conv: return convolution_flops(plan, instruction);
    case Opcode::lstm:
    case Opcode::lstm_backward: return lstm_flops(plan, instruction);
    case Opcode::scan:
    case Opcode::scan_backward: return scan_flops(plan, instruction);
    case Opcode::gather:
    case Opcode::scatter: return mask_flops(plan, instruction);
    default: return 0;
  }
}

double instruction_flops(const Plan& plan, const Instruction& instruction) {
  const double flops = whole_flops(plan, instruction);
  if (instruction.work_table < 0 || flops == 0 || !instruction.part.axes.empty()) return flops;
  const ExtentTable& work = plan.extent_tables[static_cast<std::size_t>(instruction.work_table)];
  return flops * (mean_value(work) / static_cast<double>(whole_work));
}

double segment_flops(const Plan& plan, const Segment& segment) {
  double total = 0;
  for (const Instruction& instruction : segment.instructions) total += instruction_flops(plan, instruction);
  return total;
}

double hardware_flops(const Plan& plan) {
  std::vector<double> once;
  for (const Segment& segment : plan.segments) once.push_back(segment_flops(plan, segment));
  double total = 0;
  for (const Program& program : plan.programs) {
    double rank = 0;
    for (const Entry& entry : program.entries)
      if (entry.steps != Steps::first_only) rank += once[entry.segment];
    double devices = 0;
    for (const DeviceRange& range : plan.stages[static_cast<std::size_t>(program.pipeline_rank)].devices)
      devices += static_cast<double>(range.count);
    total += rank * devices;
  }
  return total;
}

}  // namespace simrun
