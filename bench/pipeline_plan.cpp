#include "bench/pipeline_plan.h"

#include <algorithm>
#include <string>
#include <utility>

#include "schedules/one_f_one_b.h"
#include "schedules/send_recv.h"

namespace simrun {

namespace {

constexpr std::uint8_t tensor_stream = 1, data_stream = 2, receive_forward = 3, send_forward = 4,
                       receive_backward = 5, send_backward = 6;
constexpr std::int64_t sequence = 2048, hidden = 6144, tensor_parallel = 8;

Cluster cluster(int nodes) {
  Cluster cluster;
  cluster.name = "bench";
  cluster.nodes = nodes;
  cluster.gpus_per_node = 8;
  cluster.gpu.name =
      "a100";  // round numbers of the datasheet; the figures that the bench prints do not depend on them
  cluster.gpu.peak_flops[Dtype::bf16] = 312e12;
  cluster.gpu.memory_bandwidth = 2e12;
  cluster.gpu.sm_count = 108;
  cluster.gpu.kernel_launch_s = 3e-6;
  cluster.gpu.matmul_efficiency = 0.85;
  cluster.gpu.memory_efficiency = 0.85;
  cluster.intra_node = {300e9, 5e-6, 0.8};
  cluster.inter_node = {25e9, 10e-6, 0.9};
  return cluster;
}

class Builder {
 public:
  explicit Builder(const PipelinePlanShape& shape) : shape_(shape) {
    plan_.job.name = "pipeline_plan";
    plan_.cluster = cluster(shape.ranks);
    plan_.dimension_names = {"tokens", "in", "out"};
    plan_.streams = {{"compute", StreamDevice::gpu, Traffic::compute},
                     {"tp", StreamDevice::gpu, Traffic::tensor},
                     {"dp", StreamDevice::gpu, Traffic::data},
                     {"pp_forward_in", StreamDevice::gpu, Traffic::pipeline},
                     {"pp_forward_out", StreamDevice::gpu, Traffic::pipeline},
                     {"pp_backward_in", StreamDevice::gpu, Traffic::pipeline},
                     {"pp_backward_out", StreamDevice::gpu, Traffic::pipeline}};
    for (int r = 0; r < shape.ranks; ++r) {
      StageDevices stage;
      stage.devices = {{r * tensor_parallel, tensor_parallel}};
      stage.meshes = {{"dense", {{"tp", tensor_parallel}, {"dp", 1}}}};
      plan_.stages.push_back(stage);
    }
    Communication all_reduce;
    all_reduce.group.axes = {0};
    plan_.communications.push_back(all_reduce);
  }

  Plan build() {
    const Schedule schedule = one_f_one_b(shape_.ranks, shape_.microbatches);
    const std::vector<PassCosts> costs(static_cast<std::size_t>(shape_.ranks), {100, 200, 100, 100});
    const std::vector<std::vector<IssueStep>> steps = add_send_recv(schedule, costs);
    for (int r = 0; r < shape_.ranks; ++r) add_rank(r, steps[static_cast<std::size_t>(r)]);
    return std::move(plan_);
  }

 private:
  Index buffer(const char* name, Scope scope, std::vector<BufferDim> dims) {
    Buffer buffer;
    buffer.name = name;
    buffer.scope = scope;
    buffer.category = scope == Scope::run ? Category::weights : Category::activations;
    buffer.dims = std::move(dims);
    plan_.buffers.push_back(buffer);
    return static_cast<Index>(plan_.buffers.size() - 1);
  }
  // Activation [tokens, width], and weight [in, out], on one rank.
  Index activation(const char* name, std::int64_t width, std::uint16_t dim) {
    return buffer(name, Scope::microbatch, {{0, -1, sequence}, {dim, -1, width}});
  }
  Index weight(const char* name, std::int64_t in, std::int64_t out) {
    return buffer(name, Scope::run, {{1, -1, in}, {2, -1, out}});
  }

  void add(Segment& segment, Opcode opcode, std::vector<Index> inputs, std::vector<Index> outputs) const {
    Instruction i;
    i.opcode = opcode;
    i.inputs = std::move(inputs);
    i.outputs = std::move(outputs);
    i.label = to_string(opcode);
    if (opcode == Opcode::all_reduce) {
      i.stream = tensor_stream;
      i.communication = 0;
    }
    segment.instructions.push_back(std::move(i));
  }

  // norm, widen, map, map, narrow, all-reduce, add: half a layer, and its backward.
  Index half_layer(Segment& forward, Segment& backward, Index input, Opcode middle) {
    const Index normed = activation("normed", hidden, 1), wide = activation("wide", hidden / 2, 2);
    const Index mapped = activation("mapped", hidden / 2, 1), narrow = activation("narrow", hidden, 2);
    const Index output = activation("output", hidden, 1);
    const Index w1 = weight("w1", hidden, hidden / 2), w2 = weight("w2", hidden / 2, hidden);
    add(forward, Opcode::norm, {input}, {normed});
    add(forward, Opcode::gemm, {normed, w1}, {wide});
    add(forward, middle, {wide}, {mapped});
    add(forward, Opcode::gemm, {mapped, w2}, {narrow});
    add(forward, Opcode::all_reduce, {narrow}, {narrow});
    add(forward, Opcode::map, {narrow, input}, {output});
    Segment part;
    const Index d_narrow = activation("d_narrow", hidden, 2),
                d_mapped = activation("d_mapped", hidden / 2, 1);
    const Index d_wide = activation("d_wide", hidden / 2, 2), d_normed = activation("d_normed", hidden, 1);
    const Index g1 = weight("g1", hidden, hidden / 2), g2 = weight("g2", hidden / 2, hidden);
    add(part, Opcode::map, {output}, {d_narrow});
    add(part, Opcode::gemm, {d_narrow, w2}, {d_mapped});
    add(part, Opcode::gemm, {mapped, d_narrow}, {g2});
    add(part, Opcode::map, {g2}, {g2});
    add(part, middle, {d_mapped, wide}, {d_wide});
    add(part, Opcode::free, {narrow, wide, mapped, d_mapped}, {});
    add(part, Opcode::gemm, {d_wide, w1}, {d_normed});
    add(part, Opcode::all_reduce, {d_normed}, {d_normed});
    add(part, Opcode::gemm, {normed, d_wide}, {g1});
    add(part, Opcode::map, {g1}, {g1});
    add(part, Opcode::norm_backward, {d_normed, input}, {d_narrow});
    add(part, Opcode::map, {d_narrow}, {d_narrow});
    add(part, Opcode::free, {normed, d_wide, d_narrow, d_normed, output}, {});
    backward.instructions.insert(backward.instructions.begin(), part.instructions.begin(),
                                 part.instructions.end());
    return output;
  }

  // A segment with one SEND or RECV. Channel: 2 x boundary for activations, + 1 for gradients; `boundary` is
  // its lower rank.
  Index transfer(Opcode opcode, std::uint8_t stream, int peer, Index channel, Index payload) {
    Communication communication;
    communication.peer.pipeline_rank = peer;
    communication.channel = channel;
    plan_.communications.push_back(communication);
    Segment segment{to_string(opcode), PassKind::communication, no_index, {}};
    Instruction i;
    i.opcode = opcode;
    i.stream = stream;
    i.communication = static_cast<Index>(plan_.communications.size() - 1);
    (opcode == Opcode::send ? i.inputs : i.outputs) = {payload};
    i.label = opcode == Opcode::send ? "to neighbour" : "from neighbour";
    segment.instructions.push_back(i);
    if (opcode == Opcode::send) add(segment, Opcode::free, {payload}, {});
    plan_.segments.push_back(segment);
    return static_cast<Index>(plan_.segments.size() - 1);
  }

  void add_rank(int r, const std::vector<IssueStep>& steps) {
    Segment forward{"forward", PassKind::forward, static_cast<Index>(r), {}};
    Segment backward{"backward", PassKind::backward, static_cast<Index>(r), {}};
    const Index input = activation("input", hidden, 1), d_output = activation("d_output", hidden, 1);
    Index last = input;
    for (int layer = 0; layer < shape_.layers_per_rank; ++layer) {
      last = half_layer(forward, backward, last, Opcode::map);
      last = half_layer(forward, backward, last, Opcode::map);
    }
    const Index d_input = activation("d_input", hidden, 1);
    add(backward, Opcode::map, {d_output}, {d_input});
    std::rotate(backward.instructions.begin(), backward.instructions.end() - 1, backward.instructions.end());
    add(backward, Opcode::free, {input, d_output}, {});
    plan_.segments.push_back(forward);
    const auto forward_index = static_cast<Index>(plan_.segments.size() - 1);
    plan_.segments.push_back(backward);
    const Index below = static_cast<Index>(2 * (r - 1)), above = static_cast<Index>(2 * r);
    const Index by_kind[] = {0, transfer(Opcode::send, send_forward, r + 1, above, last),
                             transfer(Opcode::recv, receive_forward, r - 1, below, input),
                             transfer(Opcode::send, send_backward, r - 1, below + 1, d_input),
                             transfer(Opcode::recv, receive_backward, r + 1, above + 1, d_output)};
    Program program;
    program.pipeline_rank = r;
    for (const IssueStep& step : steps) {
      const bool compute = step.kind == StepKind::compute;
      Entry entry;
      entry.segment = compute ? forward_index + (step.op.kind == OpKind::forward ? 0 : 1)
                              : by_kind[static_cast<std::size_t>(step.kind)];
      entry.first_binding = static_cast<Index>(program.bindings.size());
      entry.sequence = step.sequence;
      program.bindings.push_back({.chunk = static_cast<Index>(r), .microbatch = step.op.microbatch});
      program.entries.push_back(entry);
    }
    plan_.programs.push_back(program);
  }

  const PipelinePlanShape shape_;
  Plan plan_;
};

}  // namespace

Plan pipeline_plan(const PipelinePlanShape& shape) { return Builder(shape).build(); }

}  // namespace simrun
