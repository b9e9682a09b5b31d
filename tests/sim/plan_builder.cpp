#include "tests/sim/plan_builder.h"

namespace simrun {

PlanBuilder::PlanBuilder(int ranks) {
  plan.cluster.nodes = 1;
  plan.cluster.gpus_per_node = 2 * ranks;
  plan.cluster.gpu.name = "one_byte_per_picosecond";
  plan.cluster.gpu.peak_flops[Dtype::bf16] = 1e12;
  plan.cluster.gpu.sm_count = 1;
  plan.cluster.gpu.memory_bandwidth = 1e12;
  plan.cluster.gpu.matmul_efficiency = plan.cluster.gpu.memory_efficiency = 1;
  plan.cluster.intra_node = plan.cluster.inter_node = {1e12, 0, 1};
  plan.dimension_names = {"bytes"};
  plan.streams = {{"compute", StreamDevice::gpu, Traffic::compute}};
  for (int r = 0; r < ranks; ++r) {
    plan.stages.push_back({{{2 * r, 2}}, {{"dense", {{"tp", 2}}}}});
    Program program;
    program.pipeline_rank = r;
    plan.programs.push_back(program);
  }
}

std::uint8_t PlanBuilder::stream(const std::string& name, Traffic traffic) {
  plan.streams.push_back({name, StreamDevice::gpu, traffic});
  return static_cast<std::uint8_t>(plan.streams.size() - 1);
}

Index PlanBuilder::buffer(std::int64_t bytes, Scope scope, Category category) {
  Buffer buffer;
  buffer.name = "b" + std::to_string(plan.buffers.size());
  buffer.scope = scope;
  buffer.category = category;
  buffer.dtype = Dtype::uint8;
  buffer.dims = {{0, -1, bytes}};
  plan.buffers.push_back(buffer);
  return static_cast<Index>(plan.buffers.size() - 1);
}

Index PlanBuilder::view(Index parent) {
  const Index index = buffer(0, plan.buffers[parent].scope, plan.buffers[parent].category);
  plan.buffers[index].parent = parent;
  return index;
}

// A view with that many bytes: it costs time and no memory.
Index PlanBuilder::paid(Picoseconds time) {
  const Index owner = buffer(0, Scope::pass, Category::workspace);
  const Index index = view(owner);
  plan.buffers[index].dims[0].extent = time;
  return index;
}

Instruction PlanBuilder::compute(Picoseconds time, std::vector<Index> reads, std::vector<Index> writes) {
  return copy(compute_stream, time, std::move(reads), std::move(writes));
}

Instruction PlanBuilder::copy(std::uint8_t stream, Picoseconds time, std::vector<Index> reads,
                              std::vector<Index> writes) {
  Instruction i;
  i.opcode = stream == compute_stream ? Opcode::map : Opcode::copy;
  i.stream = stream;
  i.inputs = std::move(reads);
  i.outputs = std::move(writes);
  i.outputs.push_back(paid(time));
  return i;
}

Instruction PlanBuilder::all_reduce(std::uint8_t stream, Picoseconds time, std::vector<Index> reads,
                                    std::vector<Index> writes) {
  Instruction i = copy(stream, 0, std::move(reads), std::move(writes));
  i.opcode = Opcode::all_reduce;
  i.inputs.push_back(paid(time));
  Communication communication;
  communication.group.axes = {0};
  i.communication = static_cast<Index>(plan.communications.size());
  plan.communications.push_back(communication);
  return i;
}

Instruction PlanBuilder::all_reduce_stages(std::uint8_t stream, Picoseconds time, std::vector<int> stages,
                                           Index channel, std::vector<Index> reads,
                                           std::vector<Index> writes) {
  const auto n = static_cast<std::int64_t>(stages.size());
  Instruction i = all_reduce(stream, time * n / (2 * (n - 1)), std::move(reads), std::move(writes));
  Communication& communication = plan.communications[i.communication];
  communication.group.axes.clear();
  communication.group.pipeline_ranks.assign(stages.begin(), stages.end());
  communication.channel = channel;
  return i;
}

Instruction PlanBuilder::send(std::uint8_t stream, Picoseconds time, Index what, int to, Index channel) {
  Instruction i;
  i.opcode = Opcode::send;
  i.stream = stream;
  i.inputs = {what, paid(time)};
  Communication communication;
  communication.peer.pipeline_rank = to;
  communication.channel = channel;
  i.communication = static_cast<Index>(plan.communications.size());
  plan.communications.push_back(communication);
  return i;
}

Instruction PlanBuilder::recv(std::uint8_t stream, Picoseconds time, Index what, int from, Index channel) {
  Instruction i = send(stream, time, what, from, channel);
  i.opcode = Opcode::recv;
  std::swap(i.inputs, i.outputs);
  return i;
}

Instruction PlanBuilder::free(std::vector<Index> what) {
  Instruction i;
  i.opcode = Opcode::free;
  i.inputs = std::move(what);
  return i;
}

Index PlanBuilder::segment(PassKind kind, std::vector<Instruction> instructions) {
  plan.segments.push_back({"s" + std::to_string(plan.segments.size()), kind, 0, std::move(instructions)});
  return static_cast<Index>(plan.segments.size() - 1);
}

void PlanBuilder::entry(int rank, Index segment, int microbatch, Steps steps) {
  Program& program = plan.programs[static_cast<std::size_t>(rank)];
  Binding binding;
  binding.microbatch = microbatch;
  Entry entry;
  entry.segment = segment;
  entry.first_binding = static_cast<Index>(program.bindings.size());
  entry.steps = steps;
  program.bindings.push_back(binding);
  program.entries.push_back(entry);
}

}  // namespace simrun
