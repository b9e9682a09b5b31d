#include "two_stage_plan.h"

#include "schedules/one_f_one_b.h"
#include "schedules/send_recv.h"

namespace simrun {
namespace {

enum Dim : std::uint16_t { rows, in, out, one };
enum StreamOf : std::uint8_t { compute, tensor, pipeline };
enum CommunicationOf : Index { send_forward, recv_forward, send_backward, recv_backward, norm, gather };

Buffer buffer(const std::string& name, Category category, Scope scope, std::vector<BufferDim> dims) {
  Buffer made;
  made.name = name;
  made.category = category;
  made.scope = scope;
  made.dims = std::move(dims);
  return made;
}

std::vector<Buffer> buffers() {
  const std::vector<BufferDim> weight = {{in, -1, 4}, {out, -1, 4}};
  const std::vector<BufferDim> left = {{rows, -1, 8}, {in, -1, 4}};
  const std::vector<BufferDim> right = {{rows, -1, 8}, {out, -1, 4}};
  const std::vector<BufferDim> scalar = {{one, -1, 1}};
  std::vector<Buffer> all = {
      buffer("w0", Category::weights, Scope::run, weight),
      buffer("w1", Category::weights, Scope::run, weight),
      buffer("a", Category::activations, Scope::microbatch, left),
      buffer("y", Category::activations, Scope::pass, right),
      buffer("dx received", Category::comm, Scope::pass, right),
      buffer("dw0", Category::gradients, Scope::run, weight),
      buffer("y received", Category::activations, Scope::microbatch, left),
      buffer("z", Category::activations, Scope::microbatch, right),
      buffer("dx", Category::activations, Scope::pass, left),
      buffer("dw1", Category::gradients, Scope::run, weight),
      buffer("norm0", Category::workspace, Scope::step, scalar),
      buffer("norm1", Category::workspace, Scope::step, scalar),
      buffer("w0 shard", Category::weights, Scope::run, {{in, -1, 2}, {out, -1, 4}}),
      buffer("dw0 view", Category::gradients, Scope::run, {{out, -1, 4}}),
  };
  all[weight_0].split = {"", "tp"};
  all[view_0].parent = sum_0;
  all[view_0].parent_offset = 12;
  return all;
}

Instruction does(Opcode opcode, std::vector<Index> inputs, std::vector<Index> outputs,
                 Phase phase = Phase::forward) {
  Instruction made;
  made.opcode = opcode;
  made.phase = phase;
  made.inputs = std::move(inputs);
  made.outputs = std::move(outputs);
  return made;
}

Instruction communicates(Opcode opcode, Index communication, std::vector<Index> inputs,
                         std::vector<Index> outputs) {
  Instruction made = does(opcode, std::move(inputs), std::move(outputs), Phase::reduction);
  made.communication = communication;
  made.stream = communication == gather ? tensor : pipeline;
  return made;
}

Instruction adds(std::vector<Index> inputs, Index sum) {
  Instruction made = does(Opcode::gemm, std::move(inputs), {sum}, Phase::backward_weight);
  made.accumulate = true;
  made.layer = 0;
  made.label = "weight gradient";
  return made;
}

std::vector<Instruction> step(Index sum, Index norm_buffer, Index weight, bool views) {
  Instruction squares = does(Opcode::reduce, {views ? Index{view_0} : sum}, {norm_buffer}, Phase::optimizer);
  squares.function = Function::sum_squares;
  Instruction adam = does(Opcode::optimizer, {sum, norm_buffer}, {weight}, Phase::optimizer);
  adam.function = Function::adam;
  return {squares, communicates(Opcode::all_reduce, norm, {norm_buffer}, {norm_buffer}), adam,
          does(Opcode::free, {norm_buffer}, {}, Phase::optimizer)};
}

std::vector<Segment> segments() {
  const auto gemm = [](Index a, Index b, Index d) { return does(Opcode::gemm, {a, b}, {d}); };
  const auto free = [](std::vector<Index> freed) { return does(Opcode::free, std::move(freed), {}); };
  std::vector<Segment> all = {
      {"forward 0",
       PassKind::forward,
       0,
       {does(Opcode::init, {}, {input_a}), gemm(input_a, weight_0, output_y)}},
      {"send y", PassKind::communication, 0, {communicates(Opcode::send, send_forward, {output_y}, {})}},
      {"free y", PassKind::communication, 0, {free({output_y})}},
      {"recv dx",
       PassKind::communication,
       0,
       {communicates(Opcode::recv, recv_backward, {}, {gradient_dx_0})}},
      {"backward 0",
       PassKind::backward,
       0,
       {adds({input_a, gradient_dx_0}, sum_0), free({input_a, gradient_dx_0})}},
      {"step 0", PassKind::step, no_index, step(sum_0, norm_0, weight_0, true)},
      {"recv y", PassKind::communication, 1, {communicates(Opcode::recv, recv_forward, {}, {received_y})}},
      {"forward 1", PassKind::forward, 1, {gemm(received_y, weight_1, output_z)}},
      {"backward 1",
       PassKind::backward,
       1,
       {gemm(output_z, weight_1, gradient_dx_1), adds({received_y, output_z}, sum_1),
        free({received_y, output_z})}},
      {"send dx",
       PassKind::communication,
       1,
       {communicates(Opcode::send, send_backward, {gradient_dx_1}, {})}},
      {"free dx", PassKind::communication, 1, {free({gradient_dx_1})}},
      {"step 1", PassKind::step, no_index, step(sum_1, norm_1, weight_1, false)},
      {"gather 0",
       PassKind::step,
       no_index,
       {communicates(Opcode::all_gather, gather, {shard_0}, {weight_0})}},
      {"zero 0", PassKind::step, no_index, {does(Opcode::init, {}, {sum_0})}},
      {"zero 1", PassKind::step, no_index, {does(Opcode::init, {}, {sum_1})}},
  };
  return all;
}

std::vector<Communication> communications() {
  std::vector<Communication> all(6);
  all[send_forward].peer.pipeline_rank = 1;
  all[recv_forward].peer.pipeline_rank = 0;
  all[send_forward].channel = all[recv_forward].channel = 0;
  all[send_backward].peer.pipeline_rank = 0;
  all[recv_backward].peer.pipeline_rank = 1;
  all[send_backward].channel = all[recv_backward].channel = 1;
  all[norm].group.pipeline_ranks = {0, 1};
  all[norm].group.axes = {0};
  all[norm].channel = 2;
  all[norm].cause = "gradient norm over all GPUs";
  all[gather].group.axes = {0};
  return all;
}

void append(Program& program, Index segment, Index chunk, std::int32_t microbatch, std::uint32_t sequence,
            Steps steps = Steps::every) {
  program.entries.push_back({segment, static_cast<Index>(program.bindings.size()), 1, steps, sequence});
  program.bindings.push_back({.chunk = chunk, .microbatch = microbatch});
}

Program program(std::int32_t rank, const std::vector<IssueStep>& steps) {
  Program made;
  made.pipeline_rank = rank;
  const auto chunk = static_cast<Index>(rank);
  if (rank == 0) append(made, gather_0, no_index, 0, 0, Steps::not_first);
  append(made, rank == 0 ? gather_0 + 1 : gather_0 + 2, no_index, 0, 0);
  for (const IssueStep& issue : steps) {
    const auto add = [&](Index segment) {
      append(made, segment, chunk, issue.op.microbatch, issue.sequence);
    };
    switch (issue.kind) {
      case StepKind::compute:
        add(issue.op.kind == OpKind::forward ? (rank == 0 ? forward_0 : forward_1)
            : rank == 0                      ? backward_0
                                             : backward_1);
        break;
      case StepKind::send_forward:
        add(send_y);
        add(free_y);
        break;
      case StepKind::recv_forward: add(recv_y); break;
      case StepKind::send_backward:
        add(send_dx);
        add(free_dx);
        break;
      default: break;  // of other schedules
      case StepKind::recv_backward: add(recv_dx); break;
    }
  }
  append(made, rank == 0 ? step_0 : step_1, no_index, 0, steps.back().sequence + 1);
  return made;
}

Cluster cluster() {
  Cluster made;
  made.name = "four_gpus";
  made.nodes = 1;
  made.gpus_per_node = made.nics_per_node = 4;
  made.gpu.name = "example";
  made.gpu.peak_flops = {{Dtype::bf16, 1e15}, {Dtype::fp32, 1.0 / 3}};
  made.gpu.vector_flops = 6.7e13;
  made.gpu.memory_bytes = 80'000'000'000;
  made.gpu.memory_bandwidth = 3.35e12;
  made.gpu.kernel_launch_s = 2e-6;
  made.intra_node = {4.5e11, 1.1e-6, 0.9};
  made.inter_node = {5e10, 5e-6, 0.8};
  made.reserved_bytes = 1'000'000'000;
  return made;
}

}  // namespace

Plan two_stage_plan(int microbatches) {
  Plan plan;
  plan.job.name = "two_stages";
  plan.job.schedule = "1f1b";
  plan.job.tensor_parallel = 2;
  plan.job.pipeline_parallel = 2;
  plan.job.microbatches = microbatches;
  plan.job.tokens_per_step = 24;
  plan.job.parameters = 32;
  plan.job.model_flops_per_step = 0.1 + 0.2;
  plan.job.hardware_flops_per_step = 4608;
  plan.cluster = cluster();
  plan.dimension_names = {"rows", "in", "out", "one"};
  plan.streams = {{"compute", StreamDevice::gpu, Traffic::compute},
                  {"tp", StreamDevice::gpu, Traffic::tensor},
                  {"pp", StreamDevice::gpu, Traffic::pipeline}};
  plan.stages = {{{{0, 2}}, {{"dense", {{"tp", 2}}}}}, {{{2, 2}}, {{"dense", {{"tp", 2}}}}}};
  plan.chunks = {
      {.pipeline_rank = 0, .stage = 0, .layers = 1, .embedding = true, .parameters = 16},
      {.pipeline_rank = 1, .stage = 1, .first_layer = 1, .layers = 1, .loss = true, .parameters = 16}};
  plan.extent_tables = {{ExtentSource::run_time, 0, {0}, {3, 9}, "router"}};
  plan.buffers = buffers();
  plan.communications = communications();
  plan.segments = segments();
  const auto steps = add_send_recv(one_f_one_b(2, microbatches), {{1, 2, 1, 1}, {1, 2, 1, 1}});
  plan.programs = {program(0, steps[0]), program(1, steps[1])};
  return plan;
}

}  // namespace simrun
