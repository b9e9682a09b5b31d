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
#include "schedules/partition.h"
#include "schedules/pipeline_schedule.h"
#include "schedules/send_recv.h"
#include "schedules/step_segments.h"

namespace simrun {
namespace {

// Streams of every plan, by index.
enum StreamIndex : std::uint8_t { compute, tp, cp, dp, forward_in, forward_out, backward_in, backward_out };

std::vector<Stream> make_streams() {
  return {{"compute", StreamDevice::gpu, Traffic::compute},
          {"tp", StreamDevice::gpu, Traffic::tensor},
          {"cp", StreamDevice::gpu, Traffic::context},
          {"dp", StreamDevice::gpu, Traffic::data},
          {"pp_forward_in", StreamDevice::gpu, Traffic::pipeline},
          {"pp_forward_out", StreamDevice::gpu, Traffic::pipeline},
          {"pp_backward_in", StreamDevice::gpu, Traffic::pipeline},
          {"pp_backward_out", StreamDevice::gpu, Traffic::pipeline}};
}

// Megatron-LM's default rank order: tp fastest, then cp, dp, pp.
std::vector<StageDevices> make_stages(const Parallelism& parallelism) {
  const Mesh dense{"dense",
                   {{"tp", parallelism.tensor_model_parallel_size},
                    {"cp", parallelism.context_parallel_size},
                    {"dp", parallelism.data_parallel_size}}};
  const std::int64_t per_stage = parallelism.tensor_model_parallel_size * parallelism.context_parallel_size *
                                 parallelism.data_parallel_size;
  std::vector<StageDevices> stages;
  for (std::int64_t rank = 0; rank < parallelism.pipeline_model_parallel_size; ++rank)
    stages.push_back({{{rank * per_stage, per_stage}}, {dense}});
  return stages;
}

JobFacts make_facts(const Job& job, const Graph& graph) {
  const Parallelism& parallelism = job.parallelism;
  JobFacts facts;
  facts.name = job.name;
  facts.config_sha256 = job.config_sha256;
  facts.model_type = job.model.model_type;
  facts.schedule = parallelism.pipeline_schedule;
  facts.tensor_parallel = parallelism.tensor_model_parallel_size;
  facts.context_parallel = parallelism.context_parallel_size;
  facts.pipeline_parallel = parallelism.pipeline_model_parallel_size;
  facts.virtual_pipeline = parallelism.virtual_pipeline_model_parallel_size;
  facts.expert_parallel = parallelism.expert_model_parallel_size;
  facts.data_parallel = parallelism.data_parallel_size;
  facts.microbatches = job.microbatches();
  facts.micro_batch_size = job.training.micro_batch_size;
  facts.seq_length = job.training.seq_length;
  facts.tokens_per_step = job.training.global_batch_size * job.training.seq_length;
  facts.parameters = count_parameters(graph);
  // The graph's batch is one microbatch over all data-parallel ranks.
  facts.model_flops_per_step = model_flops(graph) * static_cast<double>(facts.microbatches);
  facts.precision = job.training.precision;
  return facts;
}

// One chunk's code and segments.
struct CompiledChunk {
  ChunkCode code;
  ChunkEmission emission;
  Index forward = no_index;
  std::map<BackwardVariant, Index> backward;
  Index recv_forward = no_index, send_forward = no_index, recv_backward = no_index, send_backward = no_index;
};

class Compiler {
 public:
  explicit Compiler(const Job& job)
      : job_(job),
        graph_(decoder_graph(job)),
        partition_(partition(graph_, job.parallelism.stages)),
        table_(plan_) {
    plan_.job = make_facts(job, graph_);
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
    for (std::size_t stage = 0; stage < partition_.operators.size(); ++stage) compile_chunk(stage);
    add_programs();
    plan_.job.hardware_flops_per_step = hardware_flops(plan_);
    return std::move(plan_);
  }

 private:
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
    chunk.pipeline_rank = static_cast<std::int32_t>(static_cast<std::int64_t>(stage) % ranks());
    chunk.index = static_cast<std::int32_t>(static_cast<std::int64_t>(stage) / ranks());
    chunk.first_layer = partition_.first_layer[stage];
    chunk.layers = static_cast<std::int32_t>(content.layers);
    chunk.embedding = content.embedding;
    chunk.loss = content.loss;
    chunk.parameters = count_stage_parameters(operators);
    plan_.chunks.push_back(chunk);

    CompiledChunk compiled;
    lower(stage, compiled.code);
    const BucketRules rules{bucket_size(), sharded() ? job_.parallelism.data_parallel_size : 1,
                            partition_.tied_tensor};
    compiled.emission = declare_buffers(
        plan_, {graph_, compiled.code, mesh(), static_cast<Index>(stage), rules, job_.training.precision});
    compiled.forward =
        add_segment(fmt::format("stage {} forward", stage), PassKind::forward, static_cast<Index>(stage),
                    emit_forward(compiled.emission, compiled.code, table_));
    add_transfers(stage, compiled);
    chunks_.push_back(std::move(compiled));
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
    communication.peer.pipeline_rank =
        static_cast<std::int32_t>(static_cast<std::int64_t>(peer_stage) % ranks());
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
    if (code.input != no_index) {
      const std::size_t channel = 2 * (stage - 1);
      compiled.recv_forward =
          transfer(stage, compiled, {code.input, Opcode::recv, StreamIndex::forward_in}, channel);
      compiled.send_backward = transfer(
          stage, compiled, {code.input_gradient, Opcode::send, StreamIndex::backward_out}, channel + 1);
    }
    if (code.output != no_index) {
      const std::size_t channel = 2 * stage;
      compiled.send_forward =
          transfer(stage, compiled, {code.output, Opcode::send, StreamIndex::forward_out}, channel);
      compiled.recv_backward = transfer(
          stage, compiled, {code.output_gradient, Opcode::recv, StreamIndex::backward_in}, channel + 1);
    }
  }

  // ---- programs ----

  Schedule make_schedule() const {
    const Parallelism& parallelism = job_.parallelism;
    PipelineShape shape;
    shape.ranks = static_cast<int>(ranks());
    shape.virtual_stages = static_cast<int>(parallelism.virtual_pipeline_model_parallel_size);
    shape.microbatches = static_cast<int>(job_.microbatches());
    shape.group_size = static_cast<int>(parallelism.microbatch_group_size_per_vp_stage);
    const ScheduleEntry* entry = find_schedule(parallelism.pipeline_schedule);
    if (entry == nullptr)
      throw std::invalid_argument("unknown pipeline schedule " + parallelism.pipeline_schedule);
    const std::string refusal = entry->refusal(shape);
    if (!refusal.empty()) throw std::invalid_argument(refusal);
    return entry->build(shape);
  }

  // Forward and backward FLOPs order the transfers; a stage without matrix products still takes a moment.
  std::vector<PassCosts> stated_costs() {
    std::vector<PassCosts> costs;
    for (std::size_t stage = 0; stage < chunks_.size(); ++stage) {
      const auto cost = [&](Index segment) {
        return static_cast<std::int64_t>(segment_flops(plan_, plan_.segments[segment]) / 1e6) + 1;
      };
      const std::int64_t forward = cost(chunks_[stage].forward);
      const std::int64_t backward = cost(backward_segment(stage, {false, false}));
      costs.push_back({forward, backward, (backward + 1) / 2, (backward + 1) / 2});
    }
    return costs;
  }

  Index backward_segment(std::size_t stage, BackwardVariant variant) {
    variant.last = variant.last && job_.optimizer.overlap_grad_reduce;
    CompiledChunk& compiled = chunks_[stage];
    const auto known = compiled.backward.find(variant);
    if (known != compiled.backward.end()) return known->second;
    const std::vector<std::vector<Instruction>> reductions =
        variant.last ? overlapped_reductions(step_context(), compiled.emission, table_)
                     : std::vector<std::vector<Instruction>>(compiled.emission.buckets.size());
    const Index segment =
        add_segment(fmt::format("stage {} backward{}{}", stage, variant.first ? " first" : "",
                                variant.last ? " last" : ""),
                    PassKind::backward, static_cast<Index>(stage),
                    emit_backward(compiled.emission, compiled.code, table_, variant, reductions));
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
    const std::vector<std::vector<IssueStep>> issue = add_send_recv(make_schedule(), stated_costs());
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

  void add_passes(Program& program, const std::vector<IssueStep>& steps) {
    // Executed backward passes so far and in all, by stage: the first and the last get their own variants.
    std::map<std::int32_t, std::int64_t> done;
    for (const IssueStep& step : steps) {
      const auto produced = static_cast<std::size_t>(step.op.stage);
      std::size_t stage = produced;
      Index segment = no_index;
      switch (step.kind) {
        case StepKind::compute:
          if (step.op.kind == OpKind::forward) {
            segment = chunks_[stage].forward;
          } else {
            const std::int64_t before = done[step.op.stage]++;
            segment = backward_segment(stage, {before == 0, before + 1 == job_.microbatches()});
          }
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
  Plan plan_;
  CommunicationTable table_;
  std::vector<Layout> layouts_;
  RecomputeRegions regions_;
  std::vector<CompiledChunk> chunks_;
};

}  // namespace

Plan compile(const Job& job) { return Compiler(job).run(); }

}  // namespace simrun
