#include "transfer_run.h"

namespace simrun {

namespace {

constexpr std::uint8_t pipeline_stream = 1;

Buffer transfer_matrix(BufferDim rows, BufferDim columns) {
  Buffer buffer;
  buffer.dims = {rows, columns};
  return buffer;
}

Instruction gemm(const char* label) {
  Instruction made;
  made.opcode = Opcode::gemm;
  made.layer = 0;
  made.inputs = {0, 1};
  made.outputs = {2};
  made.label = label;
  return made;
}

Instruction transfer(Opcode opcode) {
  Instruction made;
  made.opcode = opcode;
  made.stream = pipeline_stream;
  made.communication = opcode == Opcode::send ? 0 : 1;
  (opcode == Opcode::send ? made.inputs : made.outputs) = {2};
  return made;
}

Communication to(std::int32_t pipeline_rank) {
  Communication made;
  made.peer.pipeline_rank = pipeline_rank;
  made.channel = 7;
  made.cause = R"(a "quoted" <cause>)";
  return made;
}

Plan two_rank_plan() {
  Plan plan;
  plan.job.name = "two \"ranks\"";
  plan.job.simrun_version = "0.1.0";
  plan.job.config_sha256 = "0123abcd";
  plan.dimension_names = {"m", "k", "n"};
  plan.streams = {{"compute", StreamDevice::gpu, Traffic::compute},
                  {"pp", StreamDevice::gpu, Traffic::pipeline}};
  const BufferDim m{0, -1, 4}, k{1, -1, 8}, n{2, -1, 2};
  plan.buffers = {transfer_matrix(m, k), transfer_matrix(k, n), transfer_matrix(m, n)};
  plan.communications = {to(1), to(0)};
  Chunk first, last;
  last.pipeline_rank = last.stage = 1;
  plan.chunks = {first, last};
  Instruction optimizer;
  optimizer.opcode = Opcode::optimizer;
  optimizer.phase = Phase::optimizer;
  plan.segments = {{"forward", PassKind::forward, 0, {gemm("qkv"), transfer(Opcode::send)}},
                   {"forward", PassKind::forward, 1, {transfer(Opcode::recv), gemm("")}},
                   {"step", PassKind::step, no_index, {optimizer}}};
  const Entry forward{};
  Entry last_forward = forward, step = forward;
  last_forward.segment = 1;
  step.segment = 2;
  step.binding_count = 0;
  plan.programs = {{0, {forward}, {{0, 5, 0, 0, Direction::down}}},
                   {1, {last_forward, step}, {{1, 5, 0, 0, Direction::down}}}};
  return plan;
}

}  // namespace

TransferRun transfer_run() {
  Timeline timeline;
  timeline.step = 4'235'000;
  timeline.engine = "by hand";
  RankTimeline first, last, other;
  first.lanes = {{compute_stream, {{0, 1'234'567, 0, 0, 0}}},
                 {pipeline_stream, {{1'234'567, 2'000'333, 0, 0, 1}}}};
  first.passes = {{0, 1'234'567, 0}};
  first.memory = {{0, {100, 0, 0, 20, 0, 0}}, {0, {100, 0, 0, 28, 0, 0}}, {3'234'900, {100, 0, 0, 20, 0, 0}}};
  first.multiplicity = 16;
  last.pipeline_rank = 1;
  last.device = 8;
  last.lanes = {{pipeline_stream, {{1'234'567, 2'000'333, 1'500'000, 0, 0}}},
                {compute_stream, {{3'234'900, 1'000'100, 0, 0, 1}, {4'235'000, 0, 0, 1, 0}}}};
  last.passes = {{3'234'900, 1'000'100, 0}, {4'235'000, 0, 1}};
  other.pipeline_rank = 1;
  other.device = 9;
  timeline.ranks = {first, last, other};
  LinkTimeline link;
  link.name = "node0.nic0.tx";
  link.multiplicity = 4;
  link.utilisation = {0, 0.5F, 0.25F, 0};
  timeline.links = {link};
  return {two_rank_plan(), timeline};
}

}  // namespace simrun
