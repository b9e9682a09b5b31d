#include "schedules/server_exchanges.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "schedules/extent_tables.h"
#include "schedules/optimizer_update.h"
#include "schedules/plan_frame.h"

namespace simrun {
namespace {

enum class ServerUse : std::uint8_t { push, pull };

Index first_server_channel(const StepContext& context) { return context.first_channel + fixed_channels; }

Index between(const StepContext& context, const ParameterBucket& bucket, Index number, ServerUse use,
              CommunicationTable& table) {
  const ServerRules& rules = context.servers;
  Communication communication;
  communication.group.axes = bucket.data_axes;
  std::int64_t members = context.mesh.size(bucket.data_axes);
  if (rules.dedicated) {
    communication.group.pipeline_ranks = {0, 1};
    members += rules.count;
    if (!rules.one_sided)
      communication.channel = first_server_channel(context) + 2 * number + (use == ServerUse::pull ? 1 : 0);
  }
  communication.servers = {server_places(rules, members), rules.dedicated, rules.one_sided};
  const std::string over = context.mesh.words(bucket.data_axes);
  communication.cause =
      use == ServerUse::push
          ? fmt::format("gradients: partial sum over {} (batch is split) -> {} servers", over, rules.count)
          : fmt::format("weights: {} servers -> replicated over {}", rules.count, over);
  return table.add(communication);
}

// As a worker, which colocated servers are, runs it.
Instruction exchange(const StepContext& context, const ParameterBucket& bucket, ServerUse use,
                     Index communication) {
  const bool pushes = use == ServerUse::push;
  Instruction instruction;
  instruction.opcode = pushes ? Opcode::push : Opcode::pull;
  instruction.phase = Phase::reduction;
  instruction.stream = stream_named(context.plan.streams, pushes ? "ps_push" : "ps_pull");
  instruction.communication = communication;
  if (pushes) {
    instruction.inputs = {bucket.outgoing == no_index ? bucket.gradients : bucket.outgoing};
    if (!context.servers.dedicated) instruction.outputs = {bucket.gradient_shard};
  } else {
    if (!context.servers.dedicated) instruction.inputs = {bucket.weight_shard};
    instruction.outputs = {bucket.incoming == no_index ? bucket.weights : bucket.incoming};
  }
  instruction.label = pushes ? "gradient push" : "weight pull";
  return instruction;
}

Instruction of_bucket(const StepContext& context, const ChunkEmission& emission, std::size_t number,
                      ServerUse use, CommunicationTable& table) {
  const ParameterBucket& bucket = emission.buckets[number];
  return exchange(context, bucket, use, between(context, bucket, static_cast<Index>(number), use, table));
}

bool pulls_at_start(const StepContext& context) {
  return context.servers.delay > 0 || context.optimizer.overlap_param_gather;
}

// The other end of it, at dedicated servers.
Instruction server_end(Instruction worker, const ParameterBucket& bucket) {
  const bool pushes = worker.opcode == Opcode::push;
  worker.inputs.clear();
  worker.outputs.clear();
  (pushes ? worker.outputs : worker.inputs) = {pushes ? bucket.gradient_shard : bucket.weight_shard};
  return worker;
}

Instruction copied(Index from, Index to, const char* label) {
  Instruction copy;
  copy.opcode = Opcode::copy;
  copy.phase = Phase::optimizer;
  copy.inputs = {from};
  copy.outputs = {to};
  copy.label = label;
  return copy;
}

void append_to(std::vector<Instruction>& instructions, std::vector<Instruction> more) {
  std::move(more.begin(), more.end(), std::back_inserter(instructions));
}

std::vector<Instruction> hand_over(const ChunkEmission& emission) {
  std::vector<Instruction> copies;
  for (const ParameterBucket& bucket : emission.buckets) {
    if (bucket.incoming != no_index)
      copies.push_back(copied(bucket.incoming, bucket.weights, "pulled weights"));
    if (bucket.outgoing != no_index)
      copies.push_back(copied(bucket.gradients, bucket.outgoing, "gradients to push"));
  }
  return copies;
}

// Asynchronous: one update of each worker's gradients in place of one of their sum.
std::vector<Instruction> served_update(const StepContext& context, Plan& plan, const ParameterBucket& bucket,
                                       Index norm, CommunicationTable& table) {
  MatrixWorkspace workspace;
  std::vector<Instruction> update = optimizer_update({context, plan, table, workspace, norm}, bucket);
  if (context.servers.one_sided)
    for (Instruction& instruction : update)
      instruction.work_table =
          table_of_work(plan, context.mesh.size(bucket.data_axes) * whole_work, "an update for each worker");
  return update;
}

}  // namespace

std::vector<Instruction> push_gradients(const StepContext& context, const ChunkEmission& emission,
                                        std::size_t bucket, CommunicationTable& table) {
  if (context.servers.delay >= 2) return {};
  return {of_bucket(context, emission, bucket, ServerUse::push, table)};
}

std::vector<Instruction> exchanges_at_start(const StepContext& context, const ChunkEmission& emission,
                                            CommunicationTable& table) {
  std::vector<Instruction> instructions;
  if (pulls_at_start(context))
    // Buckets follow the backward pass; forward wants the last one first.
    for (std::size_t b = emission.buckets.size(); b-- > 0;)
      if (!emission.buckets[b].frozen)
        instructions.push_back(of_bucket(context, emission, b, ServerUse::pull, table));
  if (context.servers.delay >= 2)
    for (std::size_t b = 0; b < emission.buckets.size(); ++b)
      if (!emission.buckets[b].frozen)
        instructions.push_back(of_bucket(context, emission, b, ServerUse::push, table));
  return instructions;
}

std::vector<Instruction> finish_with_servers(const StepContext& context, Plan& plan,
                                             const ChunkEmission& emission, Index norm,
                                             CommunicationTable& table) {
  std::vector<Instruction> instructions;
  for (std::size_t b = 0; b < emission.buckets.size(); ++b) {
    if (emission.buckets[b].frozen) continue;
    if (!context.servers.dedicated)
      append_to(instructions, served_update(context, plan, emission.buckets[b], norm, table));
    if (!pulls_at_start(context))
      instructions.push_back(of_bucket(context, emission, b, ServerUse::pull, table));
  }
  append_to(instructions, hand_over(emission));
  return instructions;
}

std::vector<Instruction> server_ends(const StepContext& context, const ChunkEmission& emission,
                                     const std::vector<Instruction>& worker, bool at_start) {
  std::vector<Instruction> ends;
  for (const Instruction& instruction : worker) {
    const bool meets = instruction.opcode == Opcode::push || (at_start && instruction.opcode == Opcode::pull);
    if (!meets) continue;
    const Index channel = context.plan.communications[instruction.communication].channel;
    ends.push_back(server_end(instruction, emission.buckets[(channel - first_server_channel(context)) / 2]));
  }
  return ends;
}

std::vector<Instruction> server_updates(const StepContext& context, Plan& plan, const ChunkEmission& emission,
                                        CommunicationTable& table) {
  std::vector<Index> gradients;
  for (const ParameterBucket& bucket : emission.buckets)
    if (!bucket.frozen) gradients.push_back(bucket.gradient_shard);
  ServersNorm norm;
  if (context.optimizer.clip_grad > 0) norm = norm_over_servers(context, plan, gradients, table);
  std::vector<Instruction> instructions = std::move(norm.instructions);
  for (std::size_t b = 0; b < emission.buckets.size(); ++b) {
    const ParameterBucket& bucket = emission.buckets[b];
    if (bucket.frozen) continue;
    append_to(instructions, served_update(context, plan, bucket, norm.norm, table));
    if (!pulls_at_start(context))
      instructions.push_back(server_end(of_bucket(context, emission, b, ServerUse::pull, table), bucket));
  }
  if (norm.norm != no_index) instructions.push_back(release_norm(norm.norm));
  return instructions;
}

}  // namespace simrun
