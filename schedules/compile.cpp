#include "schedules/compile.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>

#include "models/decoder.h"
#include "models/flops.h"
#include "schedules/chunk_code.h"
#include "schedules/emit_segments.h"
#include "schedules/instruction_flops.h"
#include "schedules/job_schedule.h"
#include "schedules/partition.h"
#include "schedules/plan_frame.h"
#include "schedules/send_recv.h"
#include "schedules/step_segments.h"

namespace simrun {
namespace {

// One chunk's code and segments.
struct CompiledChunk {
  ChunkCode code;
  BackwardSplit split;
  ChunkEmission emission;
  Index forward = no_index;
  std::map<BackwardVariant, Index> backward;
  Index recv_forward = no_index, send_forward = no_index, recv_backward = no_index, send_backward = no_index;
};

class Compiler {
 public:
  Compiler(const Job& job, const std::vector<PassTimes>& pass_times)
      : job_(job),
        graph_(decoder_graph(job)),
        partition_(partition(graph_, job.parallelism.stages)),
        schedule_(job_schedule(job, pass_times)),
        table_(plan_) {
    plan_.job = make_facts(job, graph_);
    plan_.job.found_schedule = schedule_.found;
    plan_.cluster = job.cluster;
    for (const Dimension& dimension : graph_.dimensions) plan_.dimension_names.push_back(dimension.name);
    plan_.dimension_names.push_back("elements");
    plan_.streams = make_streams();
    plan_.stages = make_stages(job.parallelism);
  }

  Plan run() {
    const std::vector<LayoutRule> rules = strategy_rules(job_);
    for (const Operator& op : graph_.operators)
      layouts_.push_back(operator_layout(graph_, op, rules, mesh()));
    std::vector<std::int32_t> first_layer;
    for (const std::int32_t stage : partition_.stage_of)
      first_layer.push_back(partition_.first_layer[static_cast<std::size_t>(stage)]);
    regions_ = recompute_regions(graph_, job_.recompute, first_layer);
    refuse_tied_on_one_rank();
    split_ = splits_backward(build(schedule_.shape));
    for (std::size_t stage = 0; stage < partition_.operators.size(); ++stage) compile_chunk(stage);
    if (schedule_.shape.stage_times.empty()) schedule_.shape.stage_times = stated_times();
    passes_ = build(schedule_.shape);
    add_programs();
    plan_.job.hardware_flops_per_step = hardware_flops(plan_);
    return std::move(plan_);
  }

 private:
  Schedule build(const PipelineShape& shape) const {
    Schedule schedule = schedule_.build(shape);
    for (const RankOps& ops : schedule)
      for (const Op& op : ops)
        if (op.slice != 0 || op.overlaps_next)
          throw std::invalid_argument(fmt::format(
              "{} runs {}, which plans cannot hold yet; simrun --schedule draws it", schedule_.name,
              op.overlaps_next ? "overlapped pairs of passes" : "slices of a sequence"));
    return schedule;
  }

  // Its gradient would have to be summed on the rank itself, where both stages have a copy.
  void refuse_tied_on_one_rank() const {
    if (partition_.tied_tensor == no_index || ranks() == 1) return;
    if (rank_of_stage(partition_.operators.size() - 1) == 0)
      throw std::invalid_argument(
          schedule_.name +
          " has the first and the last stage on rank 0, where tied embeddings are not "
          "supported yet; tie_word_embeddings: false");
  }

  const Mesh& mesh() const { return plan_.stages.front().meshes.front(); }
  std::int64_t ranks() const { return job_.parallelism.pipeline_model_parallel_size; }
  bool sharded() const { return job_.optimizer.zero_stage >= 1 && job_.parallelism.data_parallel_size > 1; }

  Index add_segment(std::string name, PassKind kind, Index chunk, std::vector<Instruction> instructions) {
    plan_.segments.push_back({std::move(name), kind, chunk, std::move(instructions)});
    return static_cast<Index>(plan_.segments.size() - 1);
  }

  void compile_chunk(std::size_t stage) {
    const StageContent& content = job_.parallelism.stages[stage];
    const std::vector<std::size_t>& operators = partition_.operators[stage];
    Chunk chunk;
    chunk.stage = static_cast<std::int32_t>(stage);
    chunk.pipeline_rank = rank_of_stage(stage);
    chunk.index = static_cast<std::int32_t>(static_cast<std::int64_t>(stage) / ranks());
    chunk.first_layer = partition_.first_layer[stage];
    chunk.layers = static_cast<std::int32_t>(content.layers);
    chunk.embedding = content.embedding;
    chunk.loss = content.loss;
    chunk.parameters = count_stage_parameters(operators);
    plan_.chunks.push_back(chunk);

    CompiledChunk compiled;
    lower(stage, compiled.code);
    compiled.split = split_backward(compiled.code);
    compiled.emission = declare_buffers(plan_, chunk_source(stage, compiled));
    compiled.forward =
        add_segment(fmt::format("stage {} forward", stage), PassKind::forward, static_cast<Index>(stage),
                    emit_forward(compiled.emission, compiled.code, table_));
    add_transfers(stage, compiled);
    chunks_.push_back(std::move(compiled));
  }

  std::int32_t rank_of_stage(std::size_t stage) const {
    return rank_of(schedule_.placement(), static_cast<int>(ranks()), static_cast<int>(stage));
  }
  // Nothing is sent between neighbouring stages of one rank: the turns of a wave.
  bool follows_on_rank(std::size_t stage) const {
    return stage > 0 && rank_of_stage(stage - 1) == rank_of_stage(stage);
  }

  ChunkSource chunk_source(std::size_t stage, const CompiledChunk& compiled) const {
    const BucketRules rules{bucket_size(), sharded() ? job_.parallelism.data_parallel_size : 1,
                            partition_.tied_tensor};
    ChunkSource source{graph_, compiled.code,          mesh(), static_cast<Index>(stage),
                       rules,  job_.training.precision};
    if (split_) source.split = &compiled.split;
    if (follows_on_rank(stage)) {
      const CompiledChunk& before = chunks_[stage - 1];
      source.input = before.emission.buffer_of[before.code.output];
      source.input_gradient = before.emission.buffer_of[before.code.output_gradient];
      source.input_kept_before = before.code.values[before.code.output].saved;
    }
    return source;
  }

  // Without overlap Megatron-LM reduces a chunk's gradients in one piece.
  std::int64_t bucket_size() const {
    return job_.optimizer.overlap_grad_reduce || job_.optimizer.overlap_param_gather
               ? job_.optimizer.bucket_size
               : std::int64_t{1} << 60;
  }

  std::int64_t count_stage_parameters(const std::vector<std::size_t>& operators) const {
    return count_parameters(graph_, operators.front(), operators.back() + 1);
  }

  void lower(std::size_t stage, ChunkCode& code) const {
    const Dtype gradients = job_.training.precision;
    static const std::vector<std::uint8_t> stream_of_axis{StreamIndex::tp, StreamIndex::cp, StreamIndex::dp};
    ChunkContext context{
        graph_,   layouts_, regions_, mesh(), stream_of_axis, gradients, partition_.operators[stage],
        no_index, {},       no_index, {}};
    if (stage > 0) {
      context.input = partition_.border[stage - 1];
      context.input_layout = border_layout(stage - 1);
    }
    if (stage + 1 < partition_.operators.size()) {
      context.output = partition_.border[stage];
      context.output_layout = border_layout(stage);
    }
    lower_forward(context, code);
    lower_backward(context, code);
  }

  Layout border_layout(std::size_t border) const {
    const std::size_t reader = partition_.border_reader[border];
    return input_layout(graph_, graph_.operators[reader], layouts_[reader],
                        partition_.border_reader_input[border]);
  }

  // ---- pipeline transfers ----

  // Channel 2 s: activations from stage s to s + 1; 2 s + 1: gradients from stage s + 1 to s.
  Index transfer(std::size_t stage, const CompiledChunk& compiled, TransferEnd end, std::size_t channel) {
    const bool send = end.opcode == Opcode::send;
    const bool gradients = channel % 2 == 1;
    const std::size_t peer_stage = send == gradients ? stage - 1 : stage + 1;
    Communication communication;
    communication.peer.pipeline_rank = rank_of_stage(peer_stage);
    communication.channel = static_cast<Index>(channel);
    communication.cause = fmt::format("stage {} {} stage {}", stage, send ? "to" : "from", peer_stage);
    end.communication = table_.add(communication);
    return add_segment(
        fmt::format("stage {} {} {}", stage, to_string(end.opcode), gradients ? "gradient" : "activation"),
        PassKind::communication, static_cast<Index>(stage),
        emit_transfer(compiled.emission, compiled.code, end));
  }

  void add_transfers(std::size_t stage, CompiledChunk& compiled) {
    const ChunkCode& code = compiled.code;
    if (code.input != no_index && !follows_on_rank(stage)) {
      const std::size_t channel = 2 * (stage - 1);
      compiled.recv_forward =
          transfer(stage, compiled, {code.input, Opcode::recv, StreamIndex::forward_in}, channel);
      compiled.send_backward = transfer(
          stage, compiled, {code.input_gradient, Opcode::send, StreamIndex::backward_out}, channel + 1);
    }
    if (code.output != no_index && !follows_on_rank(stage + 1)) {
      const std::size_t channel = 2 * stage;
      compiled.send_forward =
          transfer(stage, compiled, {code.output, Opcode::send, StreamIndex::forward_out}, channel);
      compiled.recv_backward = transfer(
          stage, compiled, {code.output_gradient, Opcode::recv, StreamIndex::backward_in}, channel + 1);
    }
  }

  // ---- programs ----

  // Times that order the transfers and that cost-aware schedules plan with, from FLOPs; a pass without
  // matrix products still takes a moment.
  std::vector<PassTimes> stated_times() {
    std::vector<PassTimes> times;
    for (std::size_t stage = 0; stage < chunks_.size(); ++stage) {
      const auto cost = [&](Index segment) {
        return static_cast<std::int64_t>(segment_flops(plan_, plan_.segments[segment]) / 1e6) + 1;
      };
      const auto backward = [&](BackwardPart part) {
        return cost(backward_segment(stage, {part, false, false, false}));
      };
      PassTimes of;
      of.forward = cost(chunks_[stage].forward);
      if (split_) {
        of.backward_input = backward(BackwardPart::input);
        of.backward_weight = backward(BackwardPart::weight);
        of.backward = of.backward_input + of.backward_weight;
      } else {
        of.backward = backward(BackwardPart::full);
        of.backward_input = of.backward_weight = (of.backward + 1) / 2;
      }
      of.overlapped = of.forward + of.backward;
      times.push_back(of);
    }
    return times;
  }

  Index backward_segment(std::size_t stage, BackwardVariant variant) {
    variant.last = variant.last && job_.optimizer.overlap_grad_reduce;
    CompiledChunk& compiled = chunks_[stage];
    const auto known = compiled.backward.find(variant);
    if (known != compiled.backward.end()) return known->second;
    const std::vector<std::vector<Instruction>> reductions =
        variant.last ? overlapped_reductions(step_context(), compiled.emission, table_)
                     : std::vector<std::vector<Instruction>>(compiled.emission.buckets.size());
    const char* const part = variant.part == BackwardPart::input    ? " input"
                             : variant.part == BackwardPart::weight ? " weight"
                                                                    : "";
    const PassKind kind = variant.part == BackwardPart::input    ? PassKind::backward_input
                          : variant.part == BackwardPart::weight ? PassKind::backward_weight
                                                                 : PassKind::backward;
    const bool first = variant.part == BackwardPart::input ? variant.first_input : variant.first;
    const Index segment =
        add_segment(fmt::format("stage {} backward{}{}{}", stage, part, first ? " first" : "",
                                variant.last ? " last" : ""),
                    kind, static_cast<Index>(stage),
                    emit_backward(compiled.emission, compiled.code, table_,
                                  {variant, split_ ? &compiled.split : nullptr, reductions}));
    compiled.backward[variant] = segment;
    return segment;
  }

  StepContext step_context() const {
    return {plan_,
            mesh(),
            job_.optimizer,
            job_.training.precision,
            StreamIndex::dp,
            StreamIndex::tp,
            static_cast<Index>(2 * chunks_.size())};
  }

  void add_programs() {
    std::vector<PassCosts> costs;
    for (const PassTimes& times : schedule_.shape.stage_times)
      costs.push_back({times.forward, times.backward, times.backward_input, times.backward_weight});
    const std::vector<std::vector<IssueStep>> issue = add_send_recv(passes_, costs);
    for (std::size_t rank = 0; rank < issue.size(); ++rank) {
      Program program;
      program.pipeline_rank = static_cast<std::int32_t>(rank);
      if (sharded() && job_.optimizer.overlap_param_gather) add_parameter_gathers(program);
      add_passes(program, issue[rank]);
      add_finish(program, issue);
      plan_.programs.push_back(std::move(program));
    }
  }

  static void add_entry(Program& program, Index segment, Binding binding, Index sequence,
                        Steps steps = Steps::every) {
    program.entries.push_back({segment, static_cast<Index>(program.bindings.size()), 1, steps, sequence});
    program.bindings.push_back(binding);
  }

  // Executed passes of a stage that write gradients, so far: the first and the last have variants of their
  // own.
  struct Backwards {
    std::int64_t weights = 0, inputs = 0;
  };
  Index backward_pass(const Op& op, Backwards& done) {
    const BackwardPart part = op.kind == OpKind::backward_input    ? BackwardPart::input
                              : op.kind == OpKind::backward_weight ? BackwardPart::weight
                                                                   : BackwardPart::full;
    BackwardVariant variant{part, false, false, false};
    if (part != BackwardPart::weight) variant.first_input = done.inputs++ == 0;
    if (part != BackwardPart::input) {
      variant.first = done.weights++ == 0;
      variant.last = done.weights == job_.microbatches();
    }
    return backward_segment(static_cast<std::size_t>(op.stage), variant);
  }

  void add_passes(Program& program, const std::vector<IssueStep>& steps) {
    std::map<std::int32_t, Backwards> done;
    for (const IssueStep& step : steps) {
      const auto produced = static_cast<std::size_t>(step.op.stage);
      std::size_t stage = produced;
      Index segment = no_index;
      switch (step.kind) {
        case StepKind::compute:
          segment = step.op.kind == OpKind::forward ? chunks_[stage].forward
                                                    : backward_pass(step.op, done[step.op.stage]);
          break;
        case StepKind::send_forward: segment = chunks_[stage].send_forward; break;
        case StepKind::recv_forward: segment = chunks_[stage = produced + 1].recv_forward; break;
        case StepKind::send_backward: segment = chunks_[stage].send_backward; break;
        case StepKind::recv_backward: segment = chunks_[stage = produced - 1].recv_backward; break;
      }
      Binding binding;
      binding.chunk = static_cast<Index>(stage);
      binding.microbatch = step.op.microbatch;
      add_entry(program, segment, binding, step.sequence);
    }
  }

  template <typename Visit>
  void for_chunks_of(const Program& program, Visit visit) {
    for (CompiledChunk& compiled : chunks_)
      if (plan_.chunks[compiled.emission.chunk].pipeline_rank == program.pipeline_rank) visit(compiled);
  }

  // The parameters that the step before updated, gathered while this step's first forward passes run.
  void add_parameter_gathers(Program& program) {
    for_chunks_of(program, [&](const CompiledChunk& compiled) {
      Binding binding;
      binding.chunk = compiled.emission.chunk;
      const Index segment =
          add_segment(compiled.emission.name + " parameter gather", PassKind::step, compiled.emission.chunk,
                      parameter_gathers(step_context(), compiled.emission, table_));
      add_entry(program, segment, binding, 0, Steps::not_first);
    });
  }

  void add_finish(Program& program, const std::vector<std::vector<IssueStep>>& issue) {
    std::vector<const ChunkEmission*> emissions;
    for_chunks_of(program, [&](const CompiledChunk& compiled) { emissions.push_back(&compiled.emission); });
    Index last_sequence = 0;
    for (const std::vector<IssueStep>& steps : issue)
      for (const IssueStep& step : steps) last_sequence = std::max(last_sequence, step.sequence);
    StepContext context = step_context();
    const std::vector<Instruction> instructions = finish_step(context, plan_, emissions, table_);
    Binding binding;
    binding.chunk = emissions.front()->chunk;
    const Index segment = add_segment(fmt::format("rank {} optimizer step", program.pipeline_rank),
                                      PassKind::step, emissions.front()->chunk, instructions);
    add_entry(program, segment, binding, last_sequence + 1);
  }

  const Job& job_;
  Graph graph_;
  Partition partition_;
  JobSchedule schedule_;
  bool split_ = false;  // some pass is a backward-input or backward-weight
  Schedule passes_;
  Plan plan_;
  CommunicationTable table_;
  std::vector<Layout> layouts_;
  RecomputeRegions regions_;
  std::vector<CompiledChunk> chunks_;
};

}  // namespace

Plan compile(const Job& job, const std::vector<PassTimes>& pass_times) {
  return Compiler(job, pass_times).run();
}

}  // namespace simrun
