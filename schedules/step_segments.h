#pragma once

#include <vector>

#include "configs/job.h"
#include "schedules/emit_segments.h"

namespace simrun {

// What the instructions around a step's passes need: gradient reductions, norm, optimizer, parameter gathers.
struct StepContext {
  const Plan& plan;
  const DeviceMesh& mesh;
  const OptimizerConfig& optimizer;
  Dtype precision;
  std::uint8_t data_stream;
  std::uint8_t tensor_stream;
  Index first_channel;                        // channels from here on are free for exchanges between stages
  std::vector<std::int32_t> tied_ranks = {};  // that each have a copy of tied word embeddings to sum
  Index tied_group = 0;                       // 1: the other of two such groups of ranks
  ServerRules servers = {};
};
// Channels behind first_channel that a plan uses for tied embeddings, the gradient norm, and tied embeddings
// of a second group.
constexpr Index fixed_channels = 3;

// Data-parallel reductions of a chunk, by bucket, for the last backward pass; empty for buckets that wait for
// the step's end because they are also summed over tensor-parallel ranks or stages.
BucketInstructions overlapped_reductions(const StepContext& context, const ChunkEmission& emission,
                                         CommunicationTable& table);

// ZeRO-2 and 3: the reduce-scatters behind every backward pass, into the shard that a rank keeps; all but the
// `first` of a step are added to it.
struct ReducingPass {
  bool first = false;
  bool last = false;  // hybrid sharding sums over the groups' shards behind it, once per step
};
BucketInstructions reductions_of_pass(const StepContext& context, const ChunkEmission& emission,
                                      ReducingPass pass, CommunicationTable& table);
// ZeRO-3: the gathers of a pass, by bucket.
BucketInstructions gathers_of_pass(const StepContext& context, const ChunkEmission& emission,
                                   CommunicationTable& table);

// ZeRO-1 and 2: all-gather of every bucket's updated weights.
std::vector<Instruction> parameter_gathers(const StepContext& context, const ChunkEmission& emission,
                                           CommunicationTable& table);

// The gradient norm as dedicated servers find it, over the parts that they all have.
struct ServersNorm {
  Index norm = no_index;  // a buffer that lives until release_norm
  std::vector<Instruction> instructions;
};
ServersNorm norm_over_servers(const StepContext& context, Plan& plan, const std::vector<Index>& gradients,
                              CommunicationTable& table);
Instruction release_norm(Index norm);

// After the last pass of a rank: the reductions that did not overlap, the gradient norm over all ranks
// (clip_grad), the optimizer and, without overlap_param_gather, the parameter gathers. Adds the norm's
// buffers to the plan.
std::vector<Instruction> finish_step(const StepContext& context, Plan& plan,
                                     const std::vector<const ChunkEmission*>& chunks,
                                     CommunicationTable& table);

}  // namespace simrun
