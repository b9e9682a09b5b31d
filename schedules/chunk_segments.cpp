#include "schedules/chunk_segments.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "models/flops.h"
#include "schedules/overlapped_pair.h"
#include "schedules/plan_frame.h"
#include "schedules/server_exchanges.h"

namespace simrun {
namespace {

PassKind kind_of(BackwardPart part) {
  if (part == BackwardPart::input) return PassKind::backward_input;
  return part == BackwardPart::weight ? PassKind::backward_weight : PassKind::backward;
}

std::string name_of(const BackwardVariant& variant) {
  const char* const part = variant.part == BackwardPart::input    ? " input"
                           : variant.part == BackwardPart::weight ? " weight"
                                                                  : "";
  const bool first = variant.part == BackwardPart::input ? variant.first_input : variant.first;
  return fmt::format("backward{}{}{}", part, first ? " first" : "", variant.last ? " last" : "");
}

// Of a pass that does not gather and free for itself.
const char* name_of(WeightUse use) {
  if (use.quantises)
    return use.gathers ? use.releases ? " casting" : " casting, gathering" : " casting, gathered";
  if (use.gathers) return use.releases ? "" : " gathering";
  return use.releases ? " releasing" : " gathered";
}

// ZeRO-2, 3: some gradients are summed behind a pass into the shard that is kept.
bool keeps_gradient_shards(const ChunkEmission& emission) {
  return std::any_of(emission.buckets.begin(), emission.buckets.end(),
                     [](const ParameterBucket& bucket) { return bucket.keeps_shard; });
}

void append_reductions(BucketInstructions& reductions, const BucketInstructions& more) {
  reductions.resize(std::max(reductions.size(), more.size()));
  for (std::size_t b = 0; b < more.size(); ++b)
    reductions[b].insert(reductions[b].end(), more[b].begin(), more[b].end());
}

// What the chunk's forward pass leaves for its backward pass.
std::vector<Index> kept_activations(const ChunkEmission& emission, const ChunkCode& code) {
  std::vector<Index> kept;
  for (std::size_t v = 0; v < code.values.size(); ++v)
    if (code.values[v].saved && code.values[v].kind == ValueKind::activation)
      kept.push_back(emission.buffer_of[v]);
  return kept;
}

}  // namespace

ChunkSegments::ChunkSegments(Plan& plan, const Job& job, const LoweredModel& model,
                             const ChunkPlacement& placement, bool splits)
    : plan_(plan), job_(job), model_(model), placement_(placement), splits_(splits), table_(plan) {
  chunks_.resize(static_cast<std::size_t>(placement.chunks()));
  for (Index chunk = 0; chunk < chunks_.size(); ++chunk) add_chunk(chunk);
}

void ChunkSegments::add_chunk(Index chunk) {
  const int stage = placement_.stage_of(chunk);
  const Direction direction = placement_.direction_of(chunk);
  const auto s = static_cast<std::size_t>(stage);
  const std::vector<std::size_t>& operators = model_.partition.operators[s];
  const StageContent& content = job_.parallelism.stages[s];
  Chunk described;
  described.stage = stage;
  described.pipeline_rank = placement_.rank(stage, direction);
  described.index = placement_.directions() == 2 ? static_cast<int>(direction) : stage / placement_.ranks;
  described.first_layer = model_.partition.first_layer[s];
  described.layers = static_cast<std::int32_t>(content.layers);
  described.mtp_layers = static_cast<std::int32_t>(content.mtp_layers);
  described.embedding = content.embedding;
  described.loss = content.loss;
  described.parameters = count_parameters(model_.graph, operators.front(), operators.back() + 1);
  plan_.chunks.push_back(described);

  Compiled& compiled = chunks_[chunk];
  compiled.code = &model_.stages[s];
  if (splits_) compiled.split = split_backward(*compiled.code, kept_before(chunk));
  compiled.emission = declare_buffers(plan_, source_of(chunk));
  cut_borders(chunk);
  if (placement_.directions() == 2) {
    // Both copies of a stage have the same buckets; two channels each, behind all others.
    compiled.emission.pair_ranks = holders_of(stage);
    const Index before = chunk < 2 ? context(chunk).first_channel + fixed_channels
                                   : chunks_[chunk - 2].emission.first_pair_channel +
                                         2 * static_cast<Index>(chunks_[chunk - 2].emission.buckets.size());
    compiled.emission.first_pair_channel = before;
  }
  compiled.weights = weight_gathers(compiled.emission);
  forward(chunk);
}

Index ChunkSegments::forward(Index chunk, WeightUse weights) {
  Compiled& compiled = chunks_[chunk];
  const auto known = compiled.forward.find(weights);
  if (known != compiled.forward.end()) return known->second;
  return compiled.forward[weights] =
             add_segment(compiled.emission.name + " forward" + name_of(weights), PassKind::forward, chunk,
                         emit_forward(compiled.emission, *compiled.code, table_, compiled.weights, weights));
}

bool ChunkSegments::gathers_in_passes() const {
  return std::any_of(chunks_.begin(), chunks_.end(), [](const Compiled& chunk) {
    const BucketInstructions& gathers = chunk.weights.gathers;
    return std::any_of(gathers.begin(), gathers.end(), [](const auto& of) { return !of.empty(); });
  });
}

bool ChunkSegments::has_steps(Index chunk, OpKind pass) const {
  const Compiled& compiled = chunks_[chunk];
  switch (pass) {
    case OpKind::forward: return true;
    case OpKind::backward: return !compiled.code->backward.empty();
    case OpKind::backward_input: return !compiled.split.input.empty();
    case OpKind::backward_weight: return !compiled.split.weight.empty();
  }
  return true;
}

WeightGathers ChunkSegments::weight_gathers(const ChunkEmission& emission) {
  if (!simrun::gathers_in_passes(job_.optimizer)) return {};
  return {gathers_of_pass(context(emission.chunk), emission, table_), job_.optimizer.overlap_param_gather,
          job_.optimizer.gather_bucket_size == 0};
}

bool ChunkSegments::writes_shared_gradient(Index chunk, BackwardPart part) const {
  const TensorId tied = model_.partition.tied_tensor;
  if (tied == no_index) return false;
  const ChunkCode& code = *chunks_[chunk].code;
  const BackwardSplit& split = chunks_[chunk].split;
  const ValueId gradient = gradient_of(code, tied);
  if (gradient == no_index) return false;
  const auto writes = [&](std::size_t step) {
    const std::vector<ValueId>& outputs = code.backward[step].outputs;
    return std::find(outputs.begin(), outputs.end(), gradient) != outputs.end();
  };
  if (part == BackwardPart::full) return true;
  const std::vector<std::size_t>& steps = part == BackwardPart::input ? split.input : split.weight;
  return std::any_of(steps.begin(), steps.end(), writes);
}

std::vector<Instruction> ChunkSegments::backward_instructions(Index chunk, const BackwardVariant& variant) {
  const Compiled& compiled = chunks_[chunk];
  BucketInstructions reductions;
  const bool once = job_.optimizer.no_sync;
  if (keeps_gradient_shards(compiled.emission) && (once ? variant.last : variant.part != BackwardPart::input))
    reductions =
        reductions_of_pass(context(chunk), compiled.emission, {once || variant.first, variant.last}, table_);
  if (variant.last)
    append_reductions(reductions, overlapped_reductions(context(chunk), compiled.emission, table_));
  BackwardPass pass{variant, splits_ ? &compiled.split : nullptr, reductions, compiled.weights};
  const TensorId tied = model_.partition.tied_tensor;
  if (tied != no_index) pass.shared_gradient = gradient_of(*compiled.code, tied);
  return emit_backward(compiled.emission, *compiled.code, table_, pass);
}

Index ChunkSegments::backward(Index chunk, BackwardVariant variant) {
  // Two copies of a stage sum their gradients when both are done (StepKind::sum_gradients).
  variant.last = variant.last && job_.optimizer.overlap_grad_reduce && placement_.directions() == 1;
  Compiled& compiled = chunks_[chunk];
  const auto known = compiled.backward.find(variant);
  if (known != compiled.backward.end()) return known->second;
  const Index segment =
      add_segment(compiled.emission.name + " " + name_of(variant) + name_of(variant.weights),
                  kind_of(variant.part), chunk, backward_instructions(chunk, variant));
  return compiled.backward[variant] = segment;
}

Index ChunkSegments::overlapped(const OverlappedPair& pair) {
  const Index first = forward(pair.forward_chunk, pair.forward_weights);
  const Index second = backward(pair.backward_chunk, pair.variant);
  const auto [known, is_new] = pairs_.try_emplace({first, second}, no_index);
  if (is_new)
    known->second =
        add_segment(fmt::format("{} with {}", plan_.segments[first].name, plan_.segments[second].name),
                    PassKind::overlapped, pair.forward_chunk,
                    overlap(plan_.segments[first].instructions, plan_.segments[second].instructions));
  return known->second;
}

// Channel 2 b: activations over border b of the pipeline; 2 b + 1: gradients. Border b of a direction lies
// between the chunks of stages b and b + 1.
Index ChunkSegments::transfer(StepKind kind, Index chunk) {
  const int stage = placement_.stage_of(chunk);
  const Direction direction = placement_.direction_of(chunk);
  const bool send = kind == StepKind::send_forward || kind == StepKind::send_backward;
  const bool gradients = kind == StepKind::send_backward || kind == StepKind::recv_backward;
  const int peer_stage = send == gradients ? stage - 1 : stage + 1;
  const int border = std::min(stage, peer_stage) * placement_.directions() + static_cast<int>(direction);
  const ChunkCode& code = *chunks_[chunk].code;
  TransferEnd end;
  end.opcode = send ? Opcode::send : Opcode::recv;
  if (peer_stage < stage)
    end.values = gradients ? code.input_gradients : code.inputs;
  else
    end.values = gradients ? code.output_gradients : code.outputs;
  std::erase(end.values, no_index);
  if (end.values.empty()) return nothing(chunk);  // no gradient: nothing before the border is trained
  if (gradients)
    end.stream = send ? StreamIndex::backward_out : StreamIndex::backward_in;
  else
    end.stream = send ? StreamIndex::forward_out : StreamIndex::forward_in;
  Communication communication;
  communication.peer.pipeline_rank = placement_.rank(peer_stage, direction);
  const MeshBorder& meeting = model_.borders[static_cast<std::size_t>(std::min(stage, peer_stage))];
  communication.peer.coordinate_map =
      partner_places(model_.mesh(static_cast<std::size_t>(stage)).mesh,
                     model_.mesh(static_cast<std::size_t>(peer_stage)).mesh,
                     peer_stage > stage ? meeting.behind_of_before : meeting.before_of_behind);
  communication.channel = static_cast<Index>(2 * border + (gradients ? 1 : 0));
  communication.cause = fmt::format("stage {} {} stage {}", stage, send ? "to" : "from", peer_stage);
  const BorderChunks& pieces = model_.border_chunks[static_cast<std::size_t>(std::min(stage, peer_stage))];
  end.communications = in_channels(chunk, communication, gradients ? pieces.gradients : pieces.activations);
  return add_segment(fmt::format("{} {} {}", chunks_[chunk].emission.name, to_string(end.opcode),
                                 gradients ? "gradient" : "activation"),
                     PassKind::communication, chunk, emit_transfer(chunks_[chunk].emission, code, end));
}

// The first piece on the border's own channel, the others behind all channels of a plan whose stages differ.
std::vector<Index> ChunkSegments::in_channels(Index chunk, Communication communication, std::int64_t pieces) {
  const Index own = communication.channel;
  const auto all = static_cast<Index>(2 * placement_.chunks());
  std::vector<Index> communications;
  for (std::int64_t piece = 0; piece < pieces; ++piece) {
    if (piece > 0)
      communication.channel =
          context(chunk).first_channel + fixed_channels + static_cast<Index>(piece - 1) * all + own;
    communications.push_back(table_.add(communication));
  }
  return communications;
}

// Activations that wait for the backward pass, to the rank that keeps them for a while, or back.
Index ChunkSegments::move(StepKind kind, Index chunk) {
  Compiled& compiled = chunks_[chunk];
  if (compiled.lent.empty()) {
    compiled.kept = kept_activations(compiled.emission, *compiled.code);
    for (const Index own : compiled.kept) {
      Buffer copy = plan_.buffers[own];
      copy.name = compiled.emission.name + " lent " + copy.name;
      compiled.lent.push_back(static_cast<Index>(plan_.buffers.size()));
      plan_.buffers.push_back(std::move(copy));
    }
  }
  if (compiled.kept.empty()) return nothing(chunk);
  const int owner = placement_.rank_of_chunk(chunk);
  const int keeper = placement_.ranks - 1 - owner;
  const bool sends = kind == StepKind::send_lent || kind == StepKind::send_back;
  const bool at_owner = kind == StepKind::send_lent || kind == StepKind::recv_returned;
  const bool returns = kind == StepKind::send_back || kind == StepKind::recv_returned;
  Communication communication;
  communication.peer.pipeline_rank = at_owner ? keeper : owner;
  communication.channel = context(chunk).first_channel + fixed_channels + 2 * chunk + (returns ? 1 : 0);
  communication.cause =
      fmt::format("bpipe: rank {} keeps activations of stage {}", keeper, placement_.stage_of(chunk));
  Instruction instruction;
  instruction.opcode = sends ? Opcode::send : Opcode::recv;
  instruction.phase = returns ? Phase::backward_input : Phase::forward;
  instruction.stream =
      sends ? stream_named(plan_.streams, "pp_lent_out") : stream_named(plan_.streams, "pp_lent_in");
  instruction.communication = table_.add(communication);
  instruction.label = "lent activations";
  const std::vector<Index>& buffers = at_owner ? compiled.kept : compiled.lent;
  (sends ? instruction.inputs : instruction.outputs) = buffers;
  std::vector<Instruction> instructions{instruction};
  if (sends) {
    Instruction release;
    release.opcode = Opcode::free;
    release.phase = instruction.phase;
    release.inputs = buffers;
    instructions.push_back(release);
  }
  static constexpr std::array names{"lends", "keeps", "gives back", "gets back"};
  const auto name = names[static_cast<std::size_t>(kind) - static_cast<std::size_t>(StepKind::send_lent)];
  return add_segment(
      fmt::format("rank {} {} {} activations", at_owner ? owner : keeper, name, compiled.emission.name),
      PassKind::communication, chunk, std::move(instructions));
}

Index ChunkSegments::exchange(StepKind kind, Index chunk) {
  Compiled& compiled = chunks_[chunk];
  const auto known = compiled.exchanges.find(kind);
  if (known != compiled.exchanges.end()) return known->second;
  Index segment = no_index;
  if (kind == StepKind::sum_gradients) {
    std::vector<Instruction> sums;
    for (const std::vector<Instruction>& of_bucket :
         overlapped_reductions(context(chunk), compiled.emission, table_))
      sums.insert(sums.end(), of_bucket.begin(), of_bucket.end());
    segment = add_segment(compiled.emission.name + " gradient sum", PassKind::communication, chunk,
                          std::move(sums));
  } else if (kind >= StepKind::send_lent) {
    segment = move(kind, chunk);
  } else {
    segment = transfer(kind, chunk);
  }
  return compiled.exchanges[kind] = segment;
}

Index ChunkSegments::parameter_gather(Index chunk) {
  const ChunkEmission& emission = chunks_[chunk].emission;
  return add_segment(emission.name + " parameter gather", PassKind::step, chunk,
                     parameter_gathers(context(chunk), emission, table_));
}

Index ChunkSegments::finish(int rank) {
  std::vector<const ChunkEmission*> emissions;
  for (const Index chunk : chunks_of(rank)) emissions.push_back(&chunks_[chunk].emission);
  StepContext step = context(emissions.front()->chunk);
  if (placement_.directions() == 2) sum_over_pairs(rank, step);
  std::vector<Instruction> instructions = finish_step(step, plan_, emissions, table_);
  return add_segment(fmt::format("rank {} optimizer step", rank), PassKind::step, emissions.front()->chunk,
                     std::move(instructions));
}

// By stage: ranks that share stages run their exchanges in the same order.
std::vector<Index> ChunkSegments::chunks_of(int rank) const {
  std::vector<Index> chunks;
  for (Index chunk = 0; chunk < chunks_.size(); ++chunk)
    if (placement_.rank_of_chunk(chunk) == rank) chunks.push_back(chunk);
  return chunks;
}

Index ChunkSegments::add_segment(std::string name, PassKind kind, Index chunk,
                                 std::vector<Instruction> instructions) {
  plan_.segments.push_back({std::move(name), kind, chunk, std::move(instructions)});
  return static_cast<Index>(plan_.segments.size() - 1);
}

// An exchange that has nothing to move.
Index ChunkSegments::nothing(Index chunk) {
  return add_segment(chunks_[chunk].emission.name + " nothing", PassKind::communication, chunk, {});
}

StepContext ChunkSegments::context(Index chunk) const {
  StepContext step{plan_,
                   mesh_of(chunk),
                   job_.optimizer,
                   job_.training.precision,
                   StreamIndex::dp,
                   StreamIndex::tp,
                   static_cast<Index>(2 * placement_.chunks())};
  step.servers = server_rules(job_);
  // Copies of one stage sum all their gradients, tied or not (sum_over_pairs).
  std::set<std::int32_t> ranks;
  if (placement_.directions() == 1)
    for (const std::int32_t stage : model_.partition.tied_stages)
      ranks.insert(placement_.rank(stage, Direction::down));
  if (ranks.size() > 1) step.tied_ranks.assign(ranks.begin(), ranks.end());
  return step;
}

}  // namespace simrun
