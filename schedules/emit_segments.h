#pragma once

#include <limits>
#include <map>
#include <string>
#include <vector>

#include "schedules/backward_split.h"
#include "schedules/chunk_code.h"
#include "schedules/parameter_buckets.h"
#include "schedules/plan.h"

namespace simrun {

// No such place, bucket, group or run: of indices into lists.
constexpr std::size_t no_place = ~std::size_t{0};

// Puts Communications into a plan, equal ones once.
class CommunicationTable {
 public:
  explicit CommunicationTable(Plan& plan) : plan_(plan) {}
  Index add(const Communication& communication);

 private:
  Plan& plan_;
  std::map<std::string, Index> known_;
};

// One chunk on its way into the plan.
struct ChunkEmission {
  Index chunk = 0;   // Plan::chunks
  std::string name;  // "stage 3"
  std::vector<ParameterBucket> buckets;
  std::vector<Index> buffer_of;  // Plan buffer of every value
  // Activations offloaded between the passes: the host's copies by value (no_index: none), and the streams to
  // and from it. Empty: none are.
  std::vector<Index> host_copy = {};
  int offloaded_layers = 0;  // ChunkSource's
  std::uint8_t to_host = 0, from_host = 0;
  std::vector<ValueId> kept_before = {};  // inputs that the stage before frees
  // What crosses a border of unlike stages in chunks: views of a buffer, by it and their number.
  std::map<std::pair<Index, std::int64_t>, std::vector<Index>> pieces = {};
  Index largest_of_weight = no_index;  // fp8, tensorwise scaling: what a weight's cast is scaled by
  // Bidirectional schedules: the two pipeline ranks that hold the stage, ascending, and the first of two
  // channels per bucket for the exchanges between them. Otherwise empty.
  std::vector<std::int32_t> pair_ranks;
  Index first_pair_channel = no_index;
};

constexpr int all_layers = std::numeric_limits<int>::max();

// What a chunk's buffers follow from.
struct ChunkSource {
  const Graph& graph;
  const ChunkCode& code;
  Index chunk = 0;
  BucketRules rules;
  const Mesh& mesh() const { return rules.mesh.mesh; }
  Dtype precision = Dtype::bf16;         // of the weights
  std::string name = {};                 // "stage 3"
  const BackwardSplit* split = nullptr;  // null: the schedule never splits a backward pass
  // Where the stage before is on the same rank nothing is sent: its outputs and the gradients of them are
  // this chunk's inputs and input gradients. Their buffers, and whether that stage keeps its output for its
  // own backward pass; otherwise empty.
  std::vector<Index> inputs = {}, input_gradients = {};
  // The first layers, whose activations leave the GPU; all_layers: all.
  int offloaded_layers = 0;
  bool scales_by_largest_weight = false;  // fp8, tensorwise scaling
  std::vector<ValueId> kept_before = {};
  // Tied word embeddings that an earlier chunk of the same rank has: its parameter and main gradient.
  Index shared_weights = no_index, shared_gradients = no_index;
};

// Declares the chunk's buffers: buckets with the parameters as views, activations, gradients.
ChunkEmission declare_buffers(Plan& plan, const ChunkSource& source);

enum class BackwardPart : std::uint8_t { full, input, weight };

// ZeRO-3: what a pass does with the weights of its chunk. A pass that does not gather finds them gathered by
// an earlier one; one that does not release leaves them to a later one.
struct WeightUse {
  bool gathers = true;
  bool releases = true;
  bool quantises = false;  // fp8: casts the weights that a rank keeps, in the first forward pass of a step
  // clang-tidy 14 takes the defaulted comparison for a null pointer.
  auto operator<=>(const WeightUse&) const = default;  // NOLINT(modernize-use-nullptr)
};

// Which microbatch of its chunk a backward pass is: the first overwrites the main gradients, the last may
// reduce them.
struct BackwardVariant {
  BackwardPart part = BackwardPart::full;
  bool first = false;         // of those that write weight gradients (full, weight)
  bool first_input = false;   // of those that write the gradients of backward-input (full, input)
  bool last = false;          // of full and weight
  bool first_shared = false;  // of all on the rank that write the gradient of shared word embeddings
  WeightUse weights;
  // clang-tidy 14 takes the defaulted comparison for a null pointer.
  auto operator<=>(const BackwardVariant&) const = default;  // NOLINT(modernize-use-nullptr)
};

// Instructions of the passes, each value freed behind its last reader. `reductions[b]`: instructions to issue
// when bucket b is complete.
using BucketInstructions = std::vector<std::vector<Instruction>>;  // by bucket
// ZeRO-3: how each bucket's weights are gathered when a pass needs them. They are freed behind their last
// reader. A unit of FSDP is what is gathered together: all buckets of a layer, or a bucket; a prefetched
// gather is issued before the first reader of the unit in front of it.
struct WeightGathers {
  BucketInstructions gathers;  // empty: weights are kept whole
  bool prefetch = false;
  bool by_layer = false;  // what a unit is
};
std::vector<Instruction> emit_forward(const ChunkEmission& emission, const ChunkCode& code,
                                      CommunicationTable& table, const WeightGathers& weights = {},
                                      WeightUse use = {});
struct BackwardPass {
  BackwardVariant variant;
  const BackwardSplit* split = nullptr;  // of the parts `input` and `weight`
  const BucketInstructions& reductions;
  const WeightGathers& weights;
  ValueId shared_gradient = no_index;  // of word embeddings that another chunk may share
};
std::vector<Instruction> emit_backward(const ChunkEmission& emission, const ChunkCode& code,
                                       CommunicationTable& table, const BackwardPass& pass);

// One end of a pipeline transfer: everything that crosses a border in one direction.
struct TransferEnd {
  std::vector<ValueId> values;
  Opcode opcode = Opcode::send;
  std::uint8_t stream = 0;
  std::vector<Index> communications = {};  // one for each piece
};
// SEND of values, in pieces (and the FREE of those that are not kept), or RECV.
std::vector<Instruction> emit_transfer(const ChunkEmission& emission, const ChunkCode& code,
                                       const TransferEnd& end);

}  // namespace simrun
