#include "schedules/compile.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>
#include <utility>

#include "schedules/bpipe.h"
#include "schedules/chunk_segments.h"
#include "schedules/context_parallel.h"
#include "schedules/document_tables.h"
#include "schedules/expert_tables.h"
#include "schedules/gathered_weights.h"
#include "schedules/instruction_flops.h"
#include "schedules/job_schedule.h"
#include "schedules/lower_model.h"
#include "schedules/plan_frame.h"
#include "schedules/replica_batches.h"

namespace simrun {
namespace {

std::vector<ModelParameter> model_parameters(const Graph& graph) {
  std::map<Index, ModelParameter> by_id;
  for (const Operator& op : graph.operators)
    for (const TensorId input : op.inputs)
      if (graph.tensors[input].kind == TensorKind::parameter)
        by_id.try_emplace(input, ModelParameter{input, op.layer, graph.tensors[input].name});
  std::vector<ModelParameter> parameters;
  parameters.reserve(by_id.size());
  for (auto& [id, parameter] : by_id) parameters.push_back(std::move(parameter));
  return parameters;
}

Plan framed_plan(const Job& job, const LoweredModel& model) {
  const Graph& graph = model.graph;
  Plan plan;
  plan.job = make_facts(job, graph);
  plan.cluster = job.cluster;
  plan.framework = job.framework;
  // Coefficients of real frameworks' runs; a job that names none is one of the device's best kernels.
  if (job.framework == Framework{}) {
    plan.cluster.gpu.kernels = {};
    for (NodeGroup& nodes : plan.cluster.node_groups) nodes.gpu.kernels = {};
  }
  for (const Dimension& dimension : graph.dimensions) plan.dimension_names.push_back(dimension.name);
  plan.dimension_names.push_back("elements");
  for (const Dimension& dimension : graph.dimensions) plan.dimension_sizes.push_back(dimension.size);
  plan.parameters = model_parameters(graph);
  plan.streams = make_streams(job);
  plan.stages = make_stages(job);
  plan.extent_tables = model.tables;
  return plan;
}

Schedule build(const JobSchedule& schedule, const PipelineShape& shape) {
  Schedule built = schedule.build(shape);
  for (const RankOps& ops : built)
    for (const Op& op : ops)
      if (op.slice != 0)
        throw std::invalid_argument(schedule.name +
                                    " runs slices of a sequence, which plans cannot hold yet; simrun "
                                    "--schedule draws it");
  return built;
}

ChunkPlacement placement_of(const JobSchedule& schedule, std::size_t stages) {
  const PipelineShape& shape = schedule.shape;
  const int expected = stage_count(schedule.placement(), shape.ranks, shape.virtual_stages);
  if (std::cmp_not_equal(stages, expected))
    throw std::invalid_argument(fmt::format("{} on {} pipeline ranks has {} stages, not {}", schedule.name,
                                            shape.ranks, expected, stages));
  return {schedule.placement(), shape.ranks, expected};
}

// What bidirectional schedules and shared embeddings leave out.
void refuse_sharded_copies(const Job& job, const ChunkPlacement& placement, const LoweredModel& model) {
  const UpdateRule rule = job.optimizer.name;
  if (job.optimizer.zero_stage >= 1 && placement.directions() == 2 &&
      (rule == UpdateRule::adafactor || rule == UpdateRule::muon))
    throw std::invalid_argument(
        fmt::format("adafactor and muon under zero_stage {} would sum over parts of matrices with the other "
                    "copy of a stage of {}; zero_stage 0 does not",
                    job.optimizer.zero_stage, job.parallelism.pipeline_schedule));
  if (!reduces_in_passes(job.optimizer)) return;
  const std::string stage = job.optimizer.zero_3_layers.empty()
                                ? fmt::format("zero_stage {}", job.optimizer.zero_stage)
                                : "ZeRO-3 of some layers";
  if (placement.directions() == 2)
    throw std::invalid_argument(
        fmt::format("{} would exchange shards with the other copy of a stage in every "
                    "pass of {}; zero_stage 0 and 1 do not",
                    stage, job.parallelism.pipeline_schedule));
  if (job.optimizer.zero_stage < 2) return;  // embeddings are in no layer
  std::set<int> holders;
  for (const std::int32_t holder : model.partition.tied_stages)
    holders.insert(placement.rank(holder, Direction::down));
  if (holders.size() < model.partition.tied_stages.size())
    throw std::invalid_argument(
        fmt::format("{} with {} would gather tied word embeddings for two stages of one rank; "
                    "untied embeddings, or zero_stage 0 or 1",
                    stage, job.parallelism.pipeline_schedule));
}

BackwardPart part_of(OpKind kind) {
  if (kind == OpKind::backward_input) return BackwardPart::input;
  return kind == OpKind::backward_weight ? BackwardPart::weight : BackwardPart::full;
}

class Compiler {
 public:
  Compiler(const Job& job, const PassFacts& facts)
      : job_(job),
        schedule_(job_schedule(job, facts)),
        model_(lower_model(job)),
        placement_(placement_of(schedule_, model_.stages.size())),
        plan_(framed_plan(job, model_)),
        splits_(splits_backward(build(schedule_, schedule_.shape))),
        segments_(plan_, job, model_, placement_, splits_) {}

  Plan run() {
    refuse_sharded_copies(job_, placement_, model_);
    if (schedule_.shape.stage_times.empty()) schedule_.shape.stage_times = stated_times();
    add_programs(build(schedule_, schedule_.shape));
    add_document_tables(plan_, job_, model_.graph);
    add_expert_tables(plan_, job_);
    add_replica_batches(plan_, job_);
    ContextParallelism(job_, model_.mesh(0)).mark_zigzag(plan_);
    plan_.job.hardware_flops_per_step = hardware_flops(plan_);
    plan_.job.found_schedule = schedule_.found;
    plan_.job.parameter_servers = segments_.parameter_servers();
    return std::move(plan_);
  }

 private:
  // Times that order the transfers and that cost-aware schedules plan with, from FLOPs; a pass without
  // matrix products still takes a moment.
  std::vector<PassTimes> stated_times() {
    std::vector<PassTimes> times;
    for (int stage = 0; stage < placement_.stages; ++stage) {
      const Index chunk = placement_.chunk_of(stage, Direction::down);
      const auto cost = [&](Index segment) {
        return static_cast<std::int64_t>(segment_flops(plan_, plan_.segments[segment]) / 1e6) + 1;
      };
      const auto backward = [&](BackwardPart part) {
        return cost(segments_.backward(chunk, {.part = part, .weights = {}}));
      };
      PassTimes of;
      of.forward = cost(segments_.forward(chunk));
      if (splits_) {
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

  void add_programs(const Schedule& passes) {
    std::vector<PassCosts> costs;
    for (const PassTimes& times : schedule_.shape.stage_times)
      costs.push_back(
          {times.forward, times.backward, times.backward_input, times.backward_weight, times.communication});
    OtherExchanges others;
    others.sum_pairs = placement_.directions() == 2 && job_.optimizer.overlap_grad_reduce;
    if (lends_memory(job_)) others.moves = bpipe_moves(passes);
    const std::vector<std::vector<IssueStep>> issue = add_send_recv(passes, costs, others);
    Index last_sequence = 0;
    for (const std::vector<IssueStep>& steps : issue)
      for (const IssueStep& step : steps) last_sequence = std::max(last_sequence, step.sequence);
    for (std::size_t rank = 0; rank < issue.size(); ++rank) {
      Program program;
      program.pipeline_rank = static_cast<std::int32_t>(rank);
      if (job_.optimizer.parameter_server ||
          (job_.optimizer.zero_stage >= 1 && job_.optimizer.overlap_param_gather))
        add_parameter_gathers(program);
      add_steps(program, issue[rank]);
      Binding binding;
      binding.chunk = segments_.chunks_of(program.pipeline_rank).front();
      add_entry(program, segments_.finish(program.pipeline_rank), {binding}, last_sequence + 1);
      plan_.programs.push_back(std::move(program));
    }
    if (job_.server_gpus() > 0) add_server_program(last_sequence + 1);
  }

  // Of dedicated parameter servers: the other ends of what the workers exchange with them, then the updates.
  void add_server_program(Index last_sequence) {
    const Program& workers = plan_.programs.front();
    Program servers;
    servers.pipeline_rank = 1;
    for (const Entry& entry : workers.entries)
      if (const Index segment = segments_.server_exchange(entry.segment, entry.steps); segment != no_index)
        add_entry(servers, segment, {workers.bindings[entry.first_binding]}, entry.sequence, entry.steps);
    add_entry(servers, segments_.server_update(), {workers.bindings[workers.entries.back().first_binding]},
              last_sequence);
    plan_.programs.push_back(std::move(servers));
  }

  static void add_entry(Program& program, Index segment, const std::vector<Binding>& bindings, Index sequence,
                        Steps steps = Steps::every) {
    program.entries.push_back({segment, static_cast<Index>(program.bindings.size()),
                               static_cast<std::uint8_t>(bindings.size()), steps, sequence});
    program.bindings.insert(program.bindings.end(), bindings.begin(), bindings.end());
  }

  // The parameters that the step before updated, gathered while this step's first forward passes run.
  void add_parameter_gathers(Program& program) {
    for (const Index chunk : segments_.chunks_of(program.pipeline_rank)) {
      const Index segment = segments_.parameter_gather(chunk);
      if (plan_.segments[segment].instructions.empty()) continue;
      Binding binding;
      binding.chunk = chunk;
      add_entry(program, segment, {binding}, 0, Steps::not_first);
    }
  }

  // Microbatches are numbered over both directions: first those of `down`.
  Binding binding_of(const Op& op, int stage) const {
    Binding binding;
    binding.chunk = placement_.chunk_of(stage, op.direction);
    binding.direction = op.direction;
    binding.microbatch = op.microbatch;
    binding.weight_version = server_rules(job_).delay;
    if (op.direction == Direction::up) binding.microbatch += schedule_.shape.microbatches / 2;
    return binding;
  }

  // Passes of a rank that write gradients, so far: the first and the last of a chunk have variants of their
  // own.
  struct Passes {
    std::int64_t weights = 0, inputs = 0, forward = 0;
  };
  struct Done {
    std::map<Index, Passes> of_chunk;
    bool shared_gradient = false;  // written
    GatheredWeights weights;
  };
  bool has_steps(const Op& op) const {
    return segments_.has_steps(placement_.chunk_of(op.stage, op.direction), op.kind);
  }
  WeightUse weight_use(const Op& op, Done& done) const {
    WeightUse use = segments_.gathers_in_passes() && has_steps(op) ? done.weights.next(op) : WeightUse{};
    if (job_.training.fp8 && op.kind == OpKind::forward)
      use.quantises = done.of_chunk[placement_.chunk_of(op.stage, op.direction)].forward++ == 0;
    return use;
  }
  BackwardVariant variant_of(const Op& op, Done& done) const {
    const Index chunk = placement_.chunk_of(op.stage, op.direction);
    const BackwardPart part = part_of(op.kind);
    Passes& passes = done.of_chunk[chunk];
    BackwardVariant variant;
    variant.part = part;
    variant.weights = weight_use(op, done);
    if (part != BackwardPart::weight) variant.first_input = passes.inputs++ == 0;
    if (part != BackwardPart::input) {
      variant.first = passes.weights++ == 0;
      variant.last = passes.weights == schedule_.shape.microbatches / placement_.directions();
    }
    if (segments_.writes_shared_gradient(chunk, part)) {
      variant.first_shared = !done.shared_gradient;
      done.shared_gradient = true;
    }
    return variant;
  }

  void add_steps(Program& program, const std::vector<IssueStep>& steps) {
    RankOps passes;  // that do anything
    for (const IssueStep& step : steps) {
      if (step.kind != StepKind::compute) continue;
      if (has_steps(step.op))
        passes.push_back(step.op);
      else if (!passes.empty())
        passes.back().overlaps_next = false;
    }
    Done done{{}, false, GatheredWeights(job_.optimizer, passes)};
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const IssueStep& step = steps[i];
      if (step.kind != StepKind::compute) {
        add_exchange(program, step);
      } else if (step.op.overlaps_next && i + 1 < steps.size()) {
        add_pair(program, step, steps[++i], done);
      } else {
        const Binding binding = binding_of(step.op, step.op.stage);
        const Index segment = step.op.kind == OpKind::forward
                                  ? segments_.forward(binding.chunk, weight_use(step.op, done))
                                  : segments_.backward(binding.chunk, variant_of(step.op, done));
        add_entry(program, segment, {binding}, step.sequence);
      }
    }
  }

  void add_pair(Program& program, const IssueStep& forward, const IssueStep& backward, Done& done) {
    const std::vector<Binding> bindings = {binding_of(forward.op, forward.op.stage),
                                           binding_of(backward.op, backward.op.stage)};
    const WeightUse forward_weights = weight_use(forward.op, done);
    const BackwardVariant variant = variant_of(backward.op, done);
    const Index segment =
        segments_.overlapped({bindings[0].chunk, forward_weights, bindings[1].chunk, variant});
    add_entry(program, segment, bindings, backward.sequence);
  }

  void add_exchange(Program& program, const IssueStep& step) {
    int stage = step.op.stage;
    if (step.kind == StepKind::recv_forward) ++stage;
    if (step.kind == StepKind::recv_backward) --stage;
    Binding binding = binding_of(step.op, stage);
    if (step.kind == StepKind::sum_gradients) {
      // Each rank has its own copy of the stage; both ends meet as instance 0.
      for (const Direction direction : {Direction::down, Direction::up})
        if (placement_.rank(stage, direction) == program.pipeline_rank) {
          binding.chunk = placement_.chunk_of(stage, direction);
          binding.direction = direction;
        }
      binding.microbatch = 0;
    }
    const Index segment = segments_.exchange(step.kind, binding.chunk);
    if (!plan_.segments[segment].instructions.empty()) add_entry(program, segment, {binding}, step.sequence);
  }

  const Job& job_;
  JobSchedule schedule_;
  const LoweredModel model_;
  const ChunkPlacement placement_;
  Plan plan_;
  const bool splits_;  // some pass is a backward-input or backward-weight
  ChunkSegments segments_;
};

}  // namespace

Plan compile(const Job& job, const PassFacts& facts) { return Compiler(job, facts).run(); }

}  // namespace simrun
