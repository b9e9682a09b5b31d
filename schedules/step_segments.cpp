#include "schedules/step_segments.h"

#include <algorithm>

#include "schedules/gradient_compression.h"
#include "schedules/offload_segments.h"
#include "schedules/optimizer_update.h"
#include "schedules/server_exchanges.h"

namespace simrun {
namespace {

bool is_sharded(const ParameterBucket& bucket) { return bucket.shards > 1; }
// ZeRO-2, 3: the gradients are reduced behind a pass, and what is left to sum are shards.
bool keeps_shard_only(const ParameterBucket& bucket) { return bucket.keeps_shard; }
Index kept_gradients(const ParameterBucket& bucket) {
  return keeps_shard_only(bucket) ? bucket.gradient_shard : bucket.gradients;
}

struct CollectiveEnds {
  Index input = no_index;
  Index output = no_index;
};

Instruction collective(Opcode opcode, std::uint8_t stream, CollectiveEnds ends, Index communication,
                       const char* label) {
  Instruction instruction;
  instruction.opcode = opcode;
  instruction.phase = Phase::reduction;
  instruction.stream = stream;
  instruction.communication = communication;
  instruction.inputs = {ends.input};
  instruction.outputs = {ends.output};
  instruction.label = label;
  return instruction;
}

Index over_axes(CommunicationTable& table, std::vector<AxisId> axes, const std::string& cause) {
  Communication communication;
  communication.group.axes = std::move(axes);
  communication.cause = cause;
  return table.add(communication);
}

// The ranks over which a chunk's gradients are summed and, under ZeRO-1, its optimizer state is divided: the
// data-parallel ones, of both pipeline ranks where two hold the stage. `use` tells reductions (0) from
// gathers (1).
Index data_group(const StepContext& context, const ChunkEmission& emission, std::size_t bucket, Index use,
                 CommunicationTable& table) {
  Communication communication;
  const ParameterBucket& of = emission.buckets[bucket];
  const std::vector<AxisId>& axes = is_sharded(of) || of.piece != no_index ? of.shard_axes : of.data_axes;
  communication.group.axes = axes;
  const std::string over = axes.empty() ? "" : " over " + context.mesh.words(axes);
  if (use == 0)
    communication.cause = "gradients: partial sum" + over + " (batch is split)";
  else
    communication.cause = "weights: shard" + over + " -> replicated";
  if (!emission.pair_ranks.empty()) {
    communication.group.pipeline_ranks = emission.pair_ranks;
    communication.channel = emission.first_pair_channel + 2 * static_cast<Index>(bucket) + use;
    communication.cause += use == 0 ? " and over the stage's two copies" : ", over both copies";
  }
  return table.add(communication);
}

bool is_summed(const ChunkEmission& emission, const ParameterBucket& bucket) {
  return !bucket.data_axes.empty() || !emission.pair_ranks.empty();
}

// Hybrid sharding: over the ranks that own the same shard.
std::vector<Instruction> replica_sum(const StepContext& context, const ParameterBucket& bucket, Index shard,
                                     CommunicationTable& table) {
  if (bucket.replica_axes.empty() || !(is_sharded(bucket) || bucket.piece != no_index)) return {};
  const std::string cause =
      "gradients: partial sum over " + context.mesh.words(bucket.replica_axes) + " (replicas of a shard)";
  return {collective(Opcode::all_reduce, context.data_stream, {shard, shard},
                     over_axes(table, bucket.replica_axes, cause), "gradient reduction")};
}

// To the owner of each shard, or of each piece that a hierarchical all-reduce goes on with; else to all.
std::vector<Instruction> scatter_sum(const StepContext& context, const ChunkEmission& emission,
                                     std::size_t bucket, CommunicationTable& table) {
  const ParameterBucket& of = emission.buckets[bucket];
  const Index shard = of.piece == no_index ? of.gradient_shard : of.piece;
  const Opcode opcode = is_sharded(of) || of.piece != no_index ? Opcode::reduce_scatter : Opcode::all_reduce;
  return {collective(opcode, context.data_stream, {of.gradients, shard},
                     data_group(context, emission, bucket, 0, table), "gradient reduction")};
}

// Sum over data-parallel ranks: to the owner of each shard under ZeRO-1, else to all.
std::vector<Instruction> data_reduction(const StepContext& context, const ChunkEmission& emission,
                                        std::size_t bucket, CommunicationTable& table) {
  const ParameterBucket& of = emission.buckets[bucket];
  if (!is_summed(emission, of)) return {};
  if (context.servers.any()) return push_gradients(context, emission, bucket, table);
  std::vector<Instruction> instructions = scatter_sum(context, emission, bucket, table);
  const Index shard = instructions.front().outputs.front();
  if (of.compressed_shard != no_index) instructions = compressed(instructions.front(), of);
  for (Instruction& sum : replica_sum(context, of, shard, table)) instructions.push_back(std::move(sum));
  if (of.piece != no_index)
    instructions.push_back(collective(Opcode::all_gather, context.data_stream, {of.piece, of.gradients},
                                      data_group(context, emission, bucket, 1, table), "gradient reduction"));
  return instructions;
}

Instruction weight_gather(const StepContext& context, const ChunkEmission& emission, std::size_t bucket,
                          CommunicationTable& table) {
  const ParameterBucket& of = emission.buckets[bucket];
  const Index shard = of.staged_weights == no_index ? of.weight_shard : of.staged_weights;
  return collective(Opcode::all_gather, context.data_stream, {shard, of.weights},
                    data_group(context, emission, bucket, 1, table), "parameter gather");
}

bool is_gathered_in_passes(const ParameterBucket& bucket) {
  return is_sharded(bucket) && bucket.zero_stage == 3;
}

void append_to(std::vector<Instruction>& instructions, const std::vector<Instruction>& more) {
  instructions.insert(instructions.end(), more.begin(), more.end());
}

bool waits_for_step_end(const ParameterBucket& bucket) { return bucket.tied || !bucket.tensor_axes.empty(); }

std::vector<Instruction> tied_reduction(const StepContext& context, const ParameterBucket& bucket,
                                        CommunicationTable& table) {
  if (context.tied_ranks.empty()) return {};
  Communication communication;
  communication.group.pipeline_ranks = context.tied_ranks;
  communication.channel = context.first_channel + 2 * context.tied_group;
  communication.cause = "word embedding gradients: tied over the first and last stage";
  return {collective(Opcode::all_reduce, context.data_stream,
                     {kept_gradients(bucket), kept_gradients(bucket)}, table.add(communication),
                     "tied embedding gradients")};
}

std::vector<Instruction> late_reductions(const StepContext& context, const ChunkEmission& emission,
                                         std::size_t number, CommunicationTable& table) {
  const ParameterBucket& bucket = emission.buckets[number];
  std::vector<Instruction> instructions;
  if (bucket.tied) instructions = tied_reduction(context, bucket, table);
  if (!bucket.tensor_axes.empty())
    instructions.push_back(collective(
        Opcode::all_reduce, context.tensor_stream, {kept_gradients(bucket), kept_gradients(bucket)},
        over_axes(table, bucket.tensor_axes, "gradients: partial sum (sequence is split)"),
        "gradient reduction"));
  // Behind the last backward pass.
  const bool done = context.optimizer.overlap_grad_reduce && !waits_for_step_end(bucket);
  if (!done && !keeps_shard_only(bucket))
    append_to(instructions, data_reduction(context, emission, number, table));
  if (!done) append_to(instructions, gradients_to_host(context.plan, bucket));
  return instructions;
}

Index add_scalar(Plan& plan, const char* name) {
  Buffer buffer;
  buffer.name = name;
  buffer.category = Category::workspace;
  buffer.scope = Scope::step;
  buffer.dtype = Dtype::fp32;
  plan.buffers.push_back(std::move(buffer));
  return static_cast<Index>(plan.buffers.size() - 1);
}

bool single_rank(const StepContext& context) {
  return context.plan.stages.size() == 1 &&
         std::all_of(context.mesh.mesh.axes.begin(), context.mesh.mesh.axes.end(),
                     [](const Axis& a) { return a.size == 1; });
}

Instruction release_buffer(Index buffer, Phase phase = Phase::optimizer) {
  Instruction instruction;
  instruction.opcode = Opcode::free;
  instruction.phase = phase;
  instruction.inputs = {buffer};
  return instruction;
}

Instruction sum_of_squares(const std::vector<Index>& gradients, Index result) {
  Instruction squares;
  squares.opcode = Opcode::reduce;
  squares.function = Function::sum_squares;
  squares.phase = Phase::optimizer;
  squares.inputs = gradients;
  squares.outputs = {result};
  squares.label = "gradient norm";
  return squares;
}

// Every rank waits here for the slowest stage: the norm is over all parameters.
std::vector<Instruction> gradient_norm(const StepContext& context, Plan& plan,
                                       const std::vector<Index>& gradients, Index norm,
                                       CommunicationTable& table) {
  if (single_rank(context)) return {sum_of_squares(gradients, norm)};
  const Index local = add_scalar(plan, "local gradient norm");
  Communication communication;
  const auto has_ranks = [&](std::size_t axis) {  // of any stage: they may be unlike
    return std::any_of(plan.stages.begin(), plan.stages.end(), [axis](const StageDevices& stage) {
      return stage.meshes.front().axes[axis].size > 1;
    });
  };
  for (std::size_t axis = 0; axis < context.mesh.mesh.axes.size(); ++axis)
    if (has_ranks(axis)) communication.group.axes.push_back(static_cast<AxisId>(axis));
  if (plan.stages.size() > 1) {
    for (std::size_t rank = 0; rank < plan.stages.size(); ++rank)
      communication.group.pipeline_ranks.push_back(static_cast<std::int32_t>(rank));
    communication.channel = context.first_channel + 1;
  }
  communication.cause = "gradient norm: partial sum over all ranks";
  return {sum_of_squares(gradients, local),
          collective(Opcode::all_reduce, context.data_stream, {local, norm}, table.add(communication),
                     "gradient norm"),
          release_buffer(local)};
}

}  // namespace

ServersNorm norm_over_servers(const StepContext& context, Plan& plan, const std::vector<Index>& gradients,
                              CommunicationTable& table) {
  ServersNorm norm{add_scalar(plan, "gradient norm"), {}};
  if (context.servers.count == 1) {
    norm.instructions = {sum_of_squares(gradients, norm.norm)};
    return norm;
  }
  const Index local = add_scalar(plan, "local gradient norm");
  const Index sum = over_axes(table, context.mesh.axes("dp"), "gradient norm: partial sum over all servers");
  norm.instructions = {
      sum_of_squares(gradients, local),
      collective(Opcode::all_reduce, context.data_stream, {local, norm.norm}, sum, "gradient norm"),
      release_buffer(local)};
  return norm;
}

Instruction release_norm(Index norm) { return release_buffer(norm); }

BucketInstructions overlapped_reductions(const StepContext& context, const ChunkEmission& emission,
                                         CommunicationTable& table) {
  BucketInstructions reductions;
  for (std::size_t b = 0; b < emission.buckets.size(); ++b) {
    const ParameterBucket& bucket = emission.buckets[b];
    reductions.emplace_back();
    if (bucket.frozen || waits_for_step_end(bucket) || keeps_shard_only(bucket)) continue;
    reductions.back() = data_reduction(context, emission, b, table);
    append_to(reductions.back(), gradients_to_host(context.plan, bucket));
  }
  return reductions;
}

namespace {

// The reduction of one pass, added to the shard that is kept of the passes before.
std::vector<Instruction> summed_into_shard(Instruction reduction, const ParameterBucket& bucket, bool first) {
  reduction.outputs = {first ? bucket.gradient_shard : bucket.reduced};
  std::vector<Instruction> instructions{reduction, release_buffer(bucket.gradients, Phase::reduction)};
  if (first) return instructions;
  Instruction sum;
  sum.opcode = Opcode::map;
  sum.function = Function::sum_gradients;
  sum.phase = Phase::reduction;
  sum.accumulate = true;
  sum.inputs = {bucket.reduced};
  sum.outputs = {bucket.gradient_shard};
  sum.label = "gradient accumulation";
  instructions.push_back(std::move(sum));
  instructions.push_back(release_buffer(bucket.reduced, Phase::reduction));
  return instructions;
}

}  // namespace

BucketInstructions reductions_of_pass(const StepContext& context, const ChunkEmission& emission,
                                      ReducingPass pass, CommunicationTable& table) {
  BucketInstructions reductions;
  for (std::size_t b = 0; b < emission.buckets.size(); ++b) {
    const ParameterBucket& bucket = emission.buckets[b];
    if (!keeps_shard_only(bucket)) {
      reductions.emplace_back();
      continue;
    }
    std::vector<Instruction> instructions = scatter_sum(context, emission, b, table);
    instructions = bucket.compressed == no_index
                       ? summed_into_shard(std::move(instructions.front()), bucket, pass.first)
                       : compressed_of_pass(std::move(instructions.front()), bucket, pass.first);
    if (pass.last) append_to(instructions, replica_sum(context, bucket, bucket.gradient_shard, table));
    if (pass.last && !waits_for_step_end(bucket))
      append_to(instructions, gradients_to_host(context.plan, bucket));
    reductions.push_back(std::move(instructions));
  }
  return reductions;
}

BucketInstructions gathers_of_pass(const StepContext& context, const ChunkEmission& emission,
                                   CommunicationTable& table) {
  BucketInstructions gathers;
  for (std::size_t b = 0; b < emission.buckets.size(); ++b) {
    gathers.emplace_back();
    gathers.back() = fetch_weights(context.plan, emission.buckets[b]);
    if (is_gathered_in_passes(emission.buckets[b]))
      gathers.back().push_back(weight_gather(context, emission, b, table));
    append_to(gathers.back(), release_fetched(emission.buckets[b]));
  }
  return gathers;
}

std::vector<Instruction> parameter_gathers(const StepContext& context, const ChunkEmission& emission,
                                           CommunicationTable& table) {
  if (context.servers.any()) return exchanges_at_start(context, emission, table);
  std::vector<std::size_t> gathered;
  for (std::size_t b = 0; b < emission.buckets.size(); ++b)
    if (is_sharded(emission.buckets[b]) && !is_gathered_in_passes(emission.buckets[b])) gathered.push_back(b);
  // The forward pass waits first for what it uses first, the last of a bucket's members. Buckets of one kind
  // of parameter follow the backward pass, but a small kind's is begun with the last layer and filled with
  // the first: norms, whose gradients sequence parallelism sums, or what is not in fp8, embedding and norms.
  const auto first_used = [&](std::size_t b) { return emission.buckets[b].members.back(); };
  std::ranges::sort(gathered, [&](std::size_t a, std::size_t b) { return first_used(a) < first_used(b); });
  std::vector<Instruction> instructions;
  instructions.reserve(gathered.size());
  for (const std::size_t b : gathered) instructions.push_back(weight_gather(context, emission, b, table));
  return instructions;
}

// Not all of the bucket is the host's.
static bool updates_on_gpu(const ParameterBucket& bucket) {
  return !bucket.offloaded.any() || bucket.kept_gradients != no_index;
}

std::vector<Instruction> finish_step(const StepContext& context, Plan& plan,
                                     const std::vector<const ChunkEmission*>& chunks,
                                     CommunicationTable& table) {
  std::vector<Instruction> instructions;
  const auto append = [&](const std::vector<Instruction>& more) {
    instructions.insert(instructions.end(), more.begin(), more.end());
  };
  std::vector<Index> gradients;
  for (const ChunkEmission* chunk : chunks)
    for (std::size_t b = 0; b < chunk->buckets.size(); ++b) {
      if (chunk->buckets[b].frozen) continue;
      append(late_reductions(context, *chunk, b, table));
      gradients.push_back(chunk->buckets[b].gradient_shard);
    }
  Index norm = no_index;
  if (context.optimizer.clip_grad > 0 && !context.servers.dedicated) {
    norm = add_scalar(plan, "gradient norm");
    append(gradient_norm(context, plan, gradients, norm, table));
  }
  if (context.servers.any()) {
    for (const ChunkEmission* chunk : chunks) append(finish_with_servers(context, plan, *chunk, norm, table));
    if (norm != no_index) instructions.push_back(release_buffer(norm));
    return instructions;
  }
  std::vector<const ParameterBucket*> buckets;
  for (const ChunkEmission* chunk : chunks)
    for (const ParameterBucket& bucket : chunk->buckets)
      if (!bucket.frozen) buckets.push_back(&bucket);
  // The host first, so that it works while the GPU does.
  MatrixWorkspace workspace;
  const UpdateContext update{context, plan, table, workspace, norm};
  append(host_optimizer(update, buckets));
  for (const ParameterBucket* bucket : buckets)
    if (updates_on_gpu(*bucket)) append(optimizer_update(update, *bucket));
  if (norm != no_index) instructions.push_back(release_buffer(norm));
  if (!context.optimizer.overlap_param_gather)
    for (const ChunkEmission* chunk : chunks) append(parameter_gathers(context, *chunk, table));
  return instructions;
}

}  // namespace simrun
