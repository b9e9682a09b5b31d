#include "sim/compute_stretch.h"

#include <algorithm>
#include <map>

#include "sim/compute_overlap.h"
#include "sim/gemm_cost.h"
#include "sim/host_stretch.h"
#include "sim/kernel_cost.h"
#include "sim/row_kernels.h"

namespace simrun {
namespace {

// Weights that exist while a pass needs them; what an optimizer has updated is gathered into those of the
// run.
bool is_gathered_unit(const Buffer& buffer) {
  return buffer.category == Category::weights && buffer.scope != Scope::run;
}

bool gathers_unit(const Plan& plan, const Instruction& instruction) {
  return instruction.opcode == Opcode::all_gather &&
         plan.streams[instruction.stream].traffic == Traffic::data &&
         std::ranges::any_of(instruction.outputs,
                             [&](Index output) { return is_gathered_unit(plan.buffers[output]); });
}

// Read and written.
double copied_bytes(const Plan& plan, const Instruction& instruction) {
  double bytes = 0;
  if (gathers_unit(plan, instruction))
    for (const Index output : instruction.outputs)
      bytes += 2 * static_cast<double>(plan.buffers[output].bytes());
  if (instruction.opcode == Opcode::reduce_scatter && !instruction.outputs.empty()) {
    const std::int64_t reduced = bytes_of(plan.buffers[instruction.outputs.front()].dtype);
    for (const Index input : instruction.inputs)
      if (const Buffer& buffer = plan.buffers[input]; buffer.category == Category::gradients)
        bytes += static_cast<double>(buffer.elements() * (bytes_of(plan.job.precision) + reduced));
  }
  return bytes;
}

// Gradients are copied where their weights are gathered: under ZeRO-3.
Picoseconds copying(const Plan& plan, const std::vector<Instruction>& instructions) {
  const auto gathers = [&](const Instruction& of) { return gathers_unit(plan, of); };
  if (std::ranges::none_of(instructions, gathers)) return 0;
  Picoseconds time = 0;
  for (const Instruction& instruction : instructions)
    if (const double bytes = copied_bytes(plan, instruction); bytes > 0)
      time = saturated_sum(time, to_picoseconds(row_kernel_seconds(plan.cluster.gpu, RowKernel{bytes})));
  return time;
}

// Of weights that an optimizer has updated, into those of the run.
bool gathers_updated(const Plan& plan, const Instruction& instruction) {
  if (instruction.opcode != Opcode::all_gather || plan.streams[instruction.stream].traffic != Traffic::data)
    return false;
  const Buffer& whole = plan.buffers[instruction.outputs.at(0)];
  return whole.category == Category::weights && !is_gathered_unit(whole);
}

// What is left to be copied behind such gathers: an operator per parameter and rank that has a shard of it,
// over all bytes three times (out of NCCL's buffer, to a flat one per rank, and out of that).
struct ShardCopies {
  std::int64_t operators = 0;
  Picoseconds time = 0;
};
ShardCopies shard_copies(const Plan& plan, const std::vector<Instruction>& instructions) {
  ShardCopies copies;
  const auto gathers = [&](const Instruction& of) { return gathers_updated(plan, of); };
  if (!plan.framework.kernels.copies_gathered_shards || std::ranges::none_of(instructions, gathers))
    return copies;
  std::map<Index, std::int64_t> parameters;  // by bucket
  for (const Buffer& buffer : plan.buffers)
    if (buffer.parameter != no_index && buffer.parent != no_index) ++parameters[buffer.parent];
  for (const Instruction& of : instructions) {
    if (!gathers(of)) continue;
    const Buffer &shard = plan.buffers[of.inputs.at(0)], &whole = plan.buffers[of.outputs[0]];
    const std::int64_t shards = whole.elements() / std::max<std::int64_t>(shard.elements(), 1);
    copies.operators += shards * parameters[of.outputs[0]];
    const RowKernel copied{3 * 2 * static_cast<double>(whole.stored_bytes())};
    copies.time = saturated_sum(copies.time, to_picoseconds(row_kernel_seconds(plan.cluster.gpu, copied)));
  }
  return copies;
}

// Experts that a product is of, where it is of more than one.
std::int64_t parts_of_experts(const Plan& plan, const Instruction& instruction) {
  if (instruction.opcode != Opcode::gemm) return 0;
  const auto is_experts = [&](const BufferDim& dim) { return plan.dimension_names[dim.name] == "experts"; };
  if (!std::ranges::any_of(plan.buffers[instruction.inputs.at(0)].dims, is_experts)) return 0;
  const std::int64_t experts = gemm_shape(plan, instruction).batch;
  return experts > 1 ? experts : 0;
}

}  // namespace

bool is_awaited(const Plan& plan, const Instruction& instruction) {
  if (!is_communication(instruction.opcode)) return false;
  const Traffic traffic = plan.streams.at(instruction.stream).traffic;
  return traffic == Traffic::tensor || traffic == Traffic::context || traffic == Traffic::expert;
}

bool blocks_compute(const Plan& plan, const Instruction& exchange) {
  const FrameworkKernels& framework = plan.framework.kernels;
  const Traffic traffic = plan.streams.at(exchange.stream).traffic;
  const bool sends = exchange.opcode == Opcode::send;
  if (plan.cluster.communication == CommunicationMode::blocking) return !sends;
  return (framework.blocking_tensor_parallel && traffic == Traffic::tensor) ||
         (framework.blocking_collectives && !sends && exchange.opcode != Opcode::recv) ||
         (framework.blocking_pipeline && traffic == Traffic::pipeline && sends);
}

bool slows_beside_exchanges(const Plan& plan, const Segment& segment) {
  return segment.kind != PassKind::step && !plan.framework.kernels.blocking_collectives &&
         plan.cluster.communication == CommunicationMode::overlapped &&
         communication_share(plan.cluster) == 0;
}

double compute_stretch(const Plan& plan, const std::vector<Instruction>& instructions,
                       const StretchedPass& times) {
  const FrameworkKernels& framework = plan.framework.kernels;
  const ShardCopies copies = shard_copies(plan, instructions);
  const double slowdown = plan.cluster.gpu.kernels.efficiencies_of_steps ? 1 : framework.compute_slowdown;
  const auto alone = static_cast<double>(times.compute);
  const double all = alone + static_cast<double>(copies.time) +
                     (plan.framework.memory.fsdp == 2 ? static_cast<double>(copying(plan, instructions)) : 0);
  const double by_device =
      all / alone * std::max({1.0, slowdown, 1 + (framework.overlap_slowdown - 1) * times.beside});
  if (framework.host_dispatch_s == 0) return by_device;
  std::int64_t launches = copies.operators, parts = 0;
  for (std::size_t i = 0; i < instructions.size(); ++i) {
    const Instruction& instruction = instructions[i];
    if (instruction.work_table >= 0 && times.times[i] == 0) continue;  // other ranks' work
    launches += is_communication(instruction.opcode)   ? 1
                : instruction.stream == compute_stream ? kernel_launches(plan, instruction)
                                                       : 0;
    if (framework.expert_dispatch_s > 0 && instruction.stream == compute_stream)
      parts += parts_of_experts(plan, instruction);
  }
  const double issue_ps = (static_cast<double>(launches) * framework.host_dispatch_s +
                           static_cast<double>(parts) * framework.expert_dispatch_s) *
                          1e12;
  if (issue_ps <= by_device * alone) return by_device;  // kernels take as long, whatever they wait for
  return std::max(by_device, host_stretch(plan, instructions, times.times, issue_ps));
}

double compute_stretch(Durations& durations, std::int32_t pipeline_rank,
                       const std::vector<Instruction>& instructions) {
  const Plan& plan = durations.plan_at({pipeline_rank, 0, 0});
  StretchedPass times;
  times.times.reserve(instructions.size());
  for (const Instruction& of : instructions) {
    const bool computes =
        of.stream == compute_stream && of.opcode != Opcode::free && of.opcode != Opcode::init;
    const Picoseconds time = computes || is_awaited(plan, of) ? durations.of(pipeline_rank, of) : 0;
    times.times.push_back(time);
    if (computes) times.compute = saturated_sum(times.compute, time);
  }
  return times.compute == 0 ? 1 : compute_stretch(plan, instructions, times);
}

Picoseconds stretched(Picoseconds time, double by) {
  return by == 1 ? time : to_picoseconds(static_cast<double>(time) * by * 1e-12);
}

}  // namespace simrun
