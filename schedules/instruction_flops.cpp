#include "schedules/instruction_flops.h"

#include <algorithm>
#include <cmath>
#include <vector>

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

// Packed q, k, v, or q alone, are the second operand of the backward kernel and the first of the forward one;
// there are as many keys as queries.
double attention_flops(const Plan& plan, const Instruction& instruction) {
  const bool backward = instruction.opcode == Opcode::attention_backward;
  const Buffer& context = plan.buffers[backward ? instruction.inputs[0] : instruction.outputs[0]];
  const Buffer& first = plan.buffers[instruction.inputs[backward ? 1 : 0]];
  double keys = 1;
  bool packed = false;
  for (const BufferDim& dim : first.dims) {
    packed |= plan.dimension_names[dim.name] == "qkv";
    if (plan.dimension_names[dim.name] == "sequence") keys = mean_extent(plan, dim);
  }
  // Unfused products cover the whole matrix, whatever the mask then hides.
  if (instruction.function != Function::unfused)
    keys = static_cast<double>(attended_keys(instruction.causal, std::llround(keys)));
  const auto elements = [&](const Buffer& buffer) {
    double product = 1;
    for (const BufferDim& dim : buffer.dims) product *= mean_extent(plan, dim);
    return product;
  };
  const double values = elements(context);
  const double queries = packed ? values : elements(first);
  return (backward ? 4 : 2) * (queries + values) * keys;
}

}  // namespace

static double whole_flops(const Plan& plan, const Instruction& instruction) {
  switch (instruction.opcode) {
    case Opcode::gemm: return gemm_flops(plan, instruction);
    case Opcode::attention:
    case Opcode::attention_backward: return attention_flops(plan, instruction);
    default: return 0;
  }
}

double instruction_flops(const Plan& plan, const Instruction& instruction) {
  const double flops = whole_flops(plan, instruction);
  if (instruction.work_table < 0 || flops == 0) return flops;
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
