#include <catch2/catch.hpp>

#include "schedules/lint.h"
#include "schedules/pipeline_schedule.h"
#include "schedules/send_recv.h"
#include "schedules/summary.h"
#include "sim/simulate.h"

namespace simrun {
namespace {

constexpr Picoseconds forward_time = 1'000'000;  // one chunk's pass; backward takes twice as long

// A pipeline of equal stages whose passes only move bytes and whose transfers cost nothing, with a schedule's
// own sends and receives.
class UniformPipeline {
 public:
  UniformPipeline(const std::string& schedule, const PipelineShape& shape) : shape_(shape) {
    plan_.cluster.nodes = shape.ranks;
    plan_.cluster.gpus_per_node = 1;
    plan_.cluster.gpu.memory_bandwidth = 1e12;
    plan_.cluster.gpu.memory_efficiency = 1;
    plan_.cluster.gpu.memory_bytes = 1 << 30;
    plan_.cluster.gpu.peak_flops[Dtype::bf16] = 1e15;
    plan_.cluster.intra_node = plan_.cluster.inter_node = {1e30, 0, 1};
    plan_.dimension_names = {"elements"};
    plan_.streams = {{"compute", StreamDevice::gpu, Traffic::compute},
                     {"in", StreamDevice::gpu, Traffic::pipeline},
                     {"out", StreamDevice::gpu, Traffic::pipeline},
                     {"back in", StreamDevice::gpu, Traffic::pipeline},
                     {"back out", StreamDevice::gpu, Traffic::pipeline}};
    plan_.job.microbatches = shape.microbatches;
    for (int rank = 0; rank < shape.ranks; ++rank)
      plan_.stages.push_back({{{rank, 1}}, {{"dense", {{"tp", 1}, {"cp", 1}, {"dp", 1}}}}});
    const int stages = shape.ranks * shape.virtual_stages;
    for (int stage = 0; stage < stages; ++stage) add_stage(stage, stages);
    const Schedule ops = find_schedule(schedule)->build(shape);
    add_programs(add_send_recv(ops, std::vector<PassCosts>(static_cast<std::size_t>(stages), {1, 2, 1, 1})));
  }
  const Plan& plan() const { return plan_; }

 private:
  Index buffer(const std::string& name, std::int64_t bytes) {
    Buffer b;
    b.name = name;
    b.scope = Scope::microbatch;
    b.dtype = Dtype::uint8;
    b.dims = {{0, -1, bytes}};
    plan_.buffers.push_back(b);
    return static_cast<Index>(plan_.buffers.size() - 1);
  }
  static Instruction make(Opcode opcode, std::vector<Index> inputs, std::vector<Index> outputs,
                          std::uint8_t stream = 0) {
    Instruction i;
    i.opcode = opcode;
    i.inputs = std::move(inputs);
    i.outputs = std::move(outputs);
    i.stream = stream;
    return i;
  }
  Index segment(PassKind kind, int stage, std::vector<Instruction> instructions) {
    plan_.segments.push_back({"s", kind, static_cast<Index>(stage), std::move(instructions)});
    return static_cast<Index>(plan_.segments.size() - 1);
  }
  Index transfer(int stage, Opcode opcode, Index what, std::uint8_t stream, int channel, int peer_stage) {
    Communication communication;
    communication.peer.pipeline_rank = peer_stage % shape_.ranks;
    communication.channel = static_cast<Index>(channel);
    plan_.communications.push_back(communication);
    const bool send = opcode == Opcode::send;
    Instruction i = send ? make(opcode, {what}, {}, stream) : make(opcode, {}, {what}, stream);
    i.communication = static_cast<Index>(plan_.communications.size() - 1);
    std::vector<Instruction> instructions{i};
    if (send) instructions.push_back(make(Opcode::free, {what}, {}));
    return segment(PassKind::communication, stage, instructions);
  }

  // A pass reads and writes 1 us or 2 us worth of bytes: x and y half each.
  void add_stage(int stage, int stages) {
    plan_.chunks.push_back(
        {stage % shape_.ranks, stage / shape_.ranks, stage, 0, 1, stage == 0, stage == stages - 1, 0});
    const std::int64_t half = forward_time / 2;  // bytes at 1 byte per picosecond
    const bool first = stage == 0, last = stage == stages - 1;
    const Index x = buffer("x", half), y = buffer("y", half), kept = buffer("kept", 0);
    const Index dy = buffer("dy", 2 * half), dx = buffer("dx", 2 * half);
    std::vector<Instruction> forward, backward;
    if (first) forward.push_back(make(Opcode::init, {}, {x}));
    forward.push_back(make(Opcode::map, {x}, {y, kept}));
    forward.push_back(make(Opcode::free, last ? std::vector<Index>{x, y} : std::vector<Index>{x}, {}));
    if (last) backward.push_back(make(Opcode::init, {}, {dy}));
    backward.push_back(make(Opcode::map, {dy, kept}, {dx}));
    backward.push_back(
        make(Opcode::free, first ? std::vector<Index>{dy, kept, dx} : std::vector<Index>{dy, kept}, {}));
    forward_.push_back(segment(PassKind::forward, stage, forward));
    backward_.push_back(segment(PassKind::backward, stage, backward));
    recv_forward_.push_back(first ? no_index : transfer(stage, Opcode::recv, x, 1, 2 * stage - 2, stage - 1));
    send_forward_.push_back(last ? no_index : transfer(stage, Opcode::send, y, 2, 2 * stage, stage + 1));
    recv_backward_.push_back(last ? no_index
                                  : transfer(stage, Opcode::recv, dy, 3, 2 * stage + 1, stage + 1));
    send_backward_.push_back(first ? no_index
                                   : transfer(stage, Opcode::send, dx, 4, 2 * stage - 1, stage - 1));
  }

  void add_programs(const std::vector<std::vector<IssueStep>>& issue) {
    for (std::size_t rank = 0; rank < issue.size(); ++rank) {
      Program program;
      program.pipeline_rank = static_cast<std::int32_t>(rank);
      for (const IssueStep& step : issue[rank]) {
        auto stage = static_cast<std::size_t>(step.op.stage);
        Index segment = no_index;
        switch (step.kind) {
          case StepKind::compute:
            segment = (step.op.kind == OpKind::forward ? forward_ : backward_)[stage];
            break;
          case StepKind::send_forward: segment = send_forward_[stage]; break;
          case StepKind::send_backward: segment = send_backward_[stage]; break;
          case StepKind::recv_forward: segment = recv_forward_[++stage]; break;
          case StepKind::recv_backward: segment = recv_backward_[--stage]; break;
          default: break;  // of other schedules
        }
        program.entries.push_back(
            {segment, static_cast<Index>(program.bindings.size()), 1, Steps::every, step.sequence});
        program.bindings.push_back({static_cast<Index>(stage), step.op.microbatch, 0, 0, Direction::down});
      }
      plan_.programs.push_back(std::move(program));
    }
  }

  PipelineShape shape_;
  Plan plan_;
  std::vector<Index> forward_, backward_, recv_forward_, send_forward_, recv_backward_, send_backward_;
};

// Idle time per rank is (p-1)(F+B) with F, B of one chunk; busy time v m (F+B). With fewer microbatches than
// ranks an interleaved schedule idles (v-1)(p-m)(F+B) more; Megatron-LM refuses those sizes.
void check_closed_form(const char* schedule, const PipelineShape& shape) {
  CAPTURE(schedule, shape.ranks, shape.virtual_stages, shape.microbatches);
  const UniformPipeline pipeline(schedule, shape);
  REQUIRE(lint(pipeline.plan()) == std::vector<std::string>{});
  const Timeline timeline = simulate(pipeline.plan());
  const std::int64_t work = std::int64_t{shape.virtual_stages} * shape.microbatches;
  CHECK(timeline.step == 3 * forward_time * (work + shape.ranks - 1));
  for (const RankTimeline& rank : timeline.ranks) {
    CHECK(rank.totals.compute == 3 * forward_time * work);
    CHECK(rank.totals.bubble_total() == 3 * forward_time * (shape.ranks - 1));
    CHECK(rank.totals.exposed_total() == 0);
  }
  CHECK(summarize(pipeline.plan(), timeline).bubble_fraction ==
        Approx((shape.ranks - 1.0) / (static_cast<double>(work) + shape.ranks - 1.0)).epsilon(1e-12));
}

TEST_CASE("bubble: GPipe and 1F1B idle exactly (p-1)/(m + p-1) of a step of uniform stages") {
  for (const int p : {1, 2, 3, 4, 5, 8})
    for (const int m : {1, 2, 3, 4, 7, 8, 16}) {
      check_closed_form("gpipe", {p, 1, m, 0});
      check_closed_form("1f1b", {p, 1, m, 0});
    }
}

TEST_CASE("bubble: interleaved 1F1B idles exactly (p-1)/(v m + p-1)") {
  for (const int p : {2, 3, 4, 8})
    for (const int v : {2, 3, 4})
      for (const int rounds : {1, 2, 3}) check_closed_form("interleaved_1f1b", {p, v, p * rounds, 0});
}

}  // namespace
}  // namespace simrun
