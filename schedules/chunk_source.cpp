#include <fmt/format.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "schedules/border_pieces.h"
#include "schedules/chunk_segments.h"
#include "schedules/server_exchanges.h"

// What a chunk's buffers are made of: its stage's code, the rules of its buckets, and what other chunks of
// the same rank have for it.
namespace simrun {
namespace {

// Without overlap Megatron-LM reduces a chunk's gradients in one piece.
std::int64_t bucket_size(const OptimizerConfig& optimizer) {
  const bool in_pieces = optimizer.parameter_server || optimizer.overlap_grad_reduce ||
                         optimizer.overlap_param_gather || optimizer.zero_stage >= 2;
  return in_pieces ? optimizer.bucket_size : std::int64_t{1} << 60;
}

}  // namespace

bool ChunkSegments::follows_on_rank(int stage, Direction direction) const {
  return stage > 0 && stage < placement_.stages &&
         placement_.rank(stage - 1, direction) == placement_.rank(stage, direction);
}

std::vector<ValueId> ChunkSegments::kept_before(Index chunk) const {
  const int stage = placement_.stage_of(chunk);
  const Direction direction = placement_.direction_of(chunk);
  std::vector<ValueId> kept;
  if (!follows_on_rank(stage, direction)) return kept;
  const ChunkCode& before = *chunks_[placement_.chunk_of(stage - 1, direction)].code;
  for (std::size_t i = 0; i < before.outputs.size(); ++i)
    if (before.values[before.outputs[i]].saved) kept.push_back(chunks_[chunk].code->inputs[i]);
  return kept;
}

ChunkSource ChunkSegments::source_of(Index chunk) const {
  const int stage = placement_.stage_of(chunk);
  const Direction direction = placement_.direction_of(chunk);
  BucketRules rules{mesh_of(chunk)};
  if (data_parallel_replicas(job_) > 1) rules.replica_axes = rules.mesh.axes("dp_outer");
  rules.hierarchical = job_.optimizer.all_reduce == AllReduceKind::hierarchical;
  rules.servers = server_rules(job_);
  if (!job_.optimizer.reshard_after_forward) rules.gathered = Scope::step;
  rules.reduces_once = job_.optimizer.no_sync;
  rules.offload = job_.offload;
  rules.bucket_size = bucket_size(job_.optimizer);
  if (placement_.directions() == 2) rules.copy_ranks = holders_of(stage);
  rules.tied_tensor = model_.partition.tied_tensor;
  rules.optimizer = job_.optimizer;
  ChunkSource source{model_.graph, *chunks_[chunk].code, chunk, rules, job_.training.precision};
  source.name = fmt::format("stage {}{}", stage, direction == Direction::up ? " up" : "");
  if (const Offload& offload = job_.offload; offload.activations != OffloadTarget::none)
    source.offloaded_layers = offload.activation_layers > 0 ? offload.activation_layers : all_layers;
  if (job_.training.fp8) source.scales_by_largest_weight = looks_before_cast(job_.training.fp8->recipe);
  if (splits_) source.split = &chunks_[chunk].split;
  source.kept_before = kept_before(chunk);
  if (follows_on_rank(stage, direction)) {
    const Compiled& before = chunks_[placement_.chunk_of(stage - 1, direction)];
    const ChunkCode& code = *before.code;
    for (std::size_t i = 0; i < code.outputs.size(); ++i) {
      const ValueId gradient = code.output_gradients[i];
      source.inputs.push_back(before.emission.buffer_of[code.outputs[i]]);
      source.input_gradients.push_back(gradient == no_index ? no_index : before.emission.buffer_of[gradient]);
    }
  }
  share_embeddings(chunk, source);
  return source;
}

// Views of what crosses the stage's borders in chunks.
void ChunkSegments::cut_borders(Index chunk) {
  ChunkEmission& emission = chunks_[chunk].emission;
  const ChunkCode& code = *chunks_[chunk].code;
  const auto stage = static_cast<std::size_t>(placement_.stage_of(chunk));
  const auto cut = [&](const std::vector<ValueId>& values, std::int64_t pieces) {
    for (const ValueId value : values)
      if (pieces > 1 && value != no_index) declare_pieces(plan_, emission, emission.buffer_of[value], pieces);
  };
  if (stage > 0) {
    cut(code.inputs, model_.border_chunks[stage - 1].activations);
    cut(code.input_gradients, model_.border_chunks[stage - 1].gradients);
  }
  if (stage < model_.border_chunks.size()) {
    cut(code.outputs, model_.border_chunks[stage].activations);
    cut(code.output_gradients, model_.border_chunks[stage].gradients);
  }
}

// Where one rank holds both the first and the last stage, tied word embeddings are one parameter there.
void ChunkSegments::share_embeddings(Index chunk, ChunkSource& source) const {
  const TensorId tied = source.rules.tied_tensor;
  if (tied == no_index || gradient_of(source.code, tied) == no_index) return;
  for (Index before = 0; before < chunk; ++before) {
    if (placement_.rank_of_chunk(before) != placement_.rank_of_chunk(chunk)) continue;
    const ChunkCode& code = *chunks_[before].code;
    for (std::size_t p = 0; p < code.parameters.size(); ++p) {
      if (code.values[code.parameters[p]].tensor != tied) continue;
      source.shared_weights = chunks_[before].emission.buffer_of[code.parameters[p]];
      source.shared_gradients = chunks_[before].emission.buffer_of[code.parameter_gradients[p]];
    }
  }
}

}  // namespace simrun
