#include "sim/compute_stretch.h"

#include <algorithm>

#include "sim/kernel_cost.h"
#include "sim/row_kernels.h"

namespace simrun {
namespace {

// Read and written.
double copied_bytes(const Plan& plan, const Instruction& instruction) {
  if (plan.streams[instruction.stream].traffic != Traffic::data) return 0;
  double bytes = 0;
  if (instruction.opcode == Opcode::all_gather)
    for (const Index output : instruction.outputs)
      if (const Buffer& buffer = plan.buffers[output]; buffer.category == Category::weights)
        bytes += 2 * static_cast<double>(buffer.bytes());
  if (instruction.opcode == Opcode::reduce_scatter && !instruction.outputs.empty()) {
    const std::int64_t reduced = bytes_of(plan.buffers[instruction.outputs.front()].dtype);
    for (const Index input : instruction.inputs)
      if (const Buffer& buffer = plan.buffers[input]; buffer.category == Category::gradients)
        bytes += static_cast<double>(buffer.elements() * (bytes_of(plan.job.precision) + reduced));
  }
  return bytes;
}

Picoseconds copying(const Plan& plan, const std::vector<Instruction>& instructions) {
  Picoseconds time = 0;
  for (const Instruction& instruction : instructions)
    if (const double bytes = copied_bytes(plan, instruction); bytes > 0)
      time = saturated_sum(time, to_picoseconds(row_kernel_seconds(plan.cluster.gpu, RowKernel{bytes})));
  return time;
}

}  // namespace

double compute_stretch(const Plan& plan, const std::vector<Instruction>& instructions, Picoseconds compute,
                       double beside) {
  const FrameworkKernels& framework = plan.framework.kernels;
  std::int64_t launches = 0;
  if (framework.host_dispatch_s > 0)
    for (const Instruction& instruction : instructions)
      if (instruction.stream == compute_stream) launches += kernel_launches(plan, instruction);
  const double issue = static_cast<double>(launches) * framework.host_dispatch_s * 1e12;
  const auto alone = static_cast<double>(compute);
  const double all =
      alone + (plan.framework.memory.fsdp == 2 ? static_cast<double>(copying(plan, instructions)) : 0);
  return all / alone *
         std::max(
             {1.0, framework.compute_slowdown, issue / all, 1 + (framework.overlap_slowdown - 1) * beside});
}

double compute_stretch(const Plan& plan, Durations& durations, std::int32_t pipeline_rank,
                       const std::vector<Instruction>& instructions) {
  Picoseconds compute = 0;
  for (const Instruction& of : instructions)
    if (of.stream == compute_stream && of.opcode != Opcode::free && of.opcode != Opcode::init)
      compute = saturated_sum(compute, durations.of(pipeline_rank, of));
  return compute == 0 ? 1 : compute_stretch(plan, instructions, compute, 0);
}

Picoseconds stretched(Picoseconds time, double by) {
  return by == 1 ? time : to_picoseconds(static_cast<double>(time) * by * 1e-12);
}

}  // namespace simrun
