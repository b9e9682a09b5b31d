#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "configs/job.h"
#include "schedules/emit_segments.h"
#include "schedules/lower_model.h"
#include "schedules/placement.h"
#include "schedules/send_recv.h"
#include "schedules/step_segments.h"

namespace simrun {

// Where the stages of a pipeline lie. A chunk is one copy of a stage: numbered by stage, then direction.
struct ChunkPlacement {
  Placement placement = Placement::loop;
  int ranks = 1;
  int stages = 1;
  int directions() const { return placement == Placement::bidirectional ? 2 : 1; }
  int chunks() const { return stages * directions(); }
  Index chunk_of(int stage, Direction direction) const {
    return static_cast<Index>(stage * directions() + static_cast<int>(direction));
  }
  int stage_of(Index chunk) const { return static_cast<int>(chunk) / directions(); }
  Direction direction_of(Index chunk) const {
    return static_cast<Direction>(static_cast<int>(chunk) % directions());
  }
  int rank(int stage, Direction direction) const { return rank_of(placement, ranks, stage, direction); }
  int rank_of_chunk(Index chunk) const { return rank(stage_of(chunk), direction_of(chunk)); }
};

// Every chunk of a plan with its buffers, and the segments that passes and exchanges of it run, each made
// when it is first asked for.
class ChunkSegments {
 public:
  // `plan` has its streams and devices; gets chunks, buffers, communications and segments. All must outlive
  // this. `splits`: the schedule has backward-input passes.
  ChunkSegments(Plan& plan, const Job& job, const LoweredModel& model, const ChunkPlacement& placement,
                bool splits);

  Index forward(Index chunk, WeightUse weights = {});
  Index backward(Index chunk, BackwardVariant variant);
  // A forward and a full backward of two chunks of one rank, overlapped.
  struct OverlappedPair {
    Index forward_chunk = 0;
    WeightUse forward_weights;
    Index backward_chunk = 0;
    BackwardVariant variant;
  };
  Index overlapped(const OverlappedPair& pair);
  // An end of a transfer of this chunk's data, or of the sum over the two copies of a stage; not `compute`.
  Index exchange(StepKind kind, Index chunk);
  // ZeRO-1's gathers of the parameters that the step before updated.
  Index parameter_gather(Index chunk);
  // All that a rank does behind its last pass.
  Index finish(int rank);

  // Dedicated parameter servers: their ends of what a worker's segment exchanges with them, or no_index; and
  // all that they do behind the last of their PUSHes.
  Index server_exchange(Index worker_segment, Steps steps);
  Index server_update();
  // What the plan says of its parameter servers; nothing without.
  std::optional<ParameterServers> parameter_servers() const;

  // ZeRO-3: passes gather the weights that they read.
  bool gathers_in_passes() const;
  // Whether the pass does anything: behind frozen layers alone nothing goes back.
  bool has_steps(Index chunk, OpKind pass) const;
  // Whether this part of a backward pass writes the gradient of word embeddings that another chunk of the
  // same rank writes too.
  bool writes_shared_gradient(Index chunk, BackwardPart part) const;
  std::vector<Index> chunks_of(int rank) const;

 private:
  struct Compiled {
    const ChunkCode* code = nullptr;
    BackwardSplit split;  // where the schedule has backward-input passes
    ChunkEmission emission;
    WeightGathers weights;
    std::map<WeightUse, Index> forward;
    std::map<BackwardVariant, Index> backward;
    std::map<StepKind, Index> exchanges;
    std::vector<Index> kept, lent;  // activations from F to B, and where another rank keeps them meanwhile
  };

  void add_chunk(Index chunk);
  std::vector<std::int32_t> holders_of(int stage) const;
  void sum_over_pairs(int rank, StepContext& step) const;
  ChunkSource source_of(Index chunk) const;
  void cut_borders(Index chunk);
  std::vector<Index> in_channels(Index chunk, Communication communication, std::int64_t pieces);
  // Inputs that the stage before, on the same rank, needs for its own backward pass, and frees.
  std::vector<ValueId> kept_before(Index chunk) const;
  void share_embeddings(Index chunk, ChunkSource& source) const;
  Index transfer(StepKind kind, Index chunk);
  Index move(StepKind kind, Index chunk);
  Index nothing(Index chunk);
  std::vector<Instruction> backward_instructions(Index chunk, const BackwardVariant& variant);
  Index add_segment(std::string name, PassKind kind, Index chunk, std::vector<Instruction> instructions);
  WeightGathers weight_gathers(const ChunkEmission& emission);
  StepContext context(Index chunk) const;
  const DeviceMesh& mesh_of(Index chunk) const {
    return model_.mesh(static_cast<std::size_t>(placement_.stage_of(chunk)));
  }
  // Nothing is sent between neighbouring stages of one rank: the turns of a wave.
  bool follows_on_rank(int stage, Direction direction) const;

  Plan& plan_;
  const Job& job_;
  const LoweredModel& model_;
  const ChunkPlacement placement_;
  const bool splits_;
  CommunicationTable table_;
  std::vector<Compiled> chunks_;
  std::map<std::pair<Index, Index>, Index> pairs_;  // by the segments of both passes
};

}  // namespace simrun
