#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/graph.h"
#include "schedules/layout.h"
#include "schedules/plan.h"

// The code of one chunk (virtual stage) before buffers: steps over values that are each written once per
// pass, so that what is alive when follows from first and last use alone.
namespace simrun {

using ValueId = std::uint32_t;

enum class ValueKind : std::uint8_t {
  parameter,           // a rank's slice of a parameter
  parameter_gradient,  // its main gradient
  activation,          // written in the forward pass (or received)
  backward,            // written in the backward pass: gradients, recomputed activations, gathered copies
};

struct Value {
  TensorId tensor = 0;
  ValueKind kind = ValueKind::activation;
  Dtype dtype = Dtype::bf16;
  Layout layout;
  std::string name;
  ValueId source = no_index;  // what a conversion was made from
  // Its opcode; `free`: not a conversion; in ring attention, `recv`: a block of another rank, `map`: a
  // summand.
  Opcode conversion = Opcode::free;
  std::int32_t region = -1;  // recompute region whose forward step wrote it
  bool saved = false;        // kept from the forward to the backward pass
  bool arrived = false;      // received from another stage
  bool frozen = false;       // parameter: has neither gradient nor optimizer state
  // fp8: what a copy was cast from, elements that share a scale (Buffer::scale_block), and, of a copy whose
  // rows are stored one behind the other, the one that was written with it for products along its columns.
  ValueId quantised_from = no_index;
  std::int32_t scale_block = 0;
  ValueId column = no_index;
  std::int64_t flat_elements =
      0;  // fp32 numbers without the tensor's shape: largest values and scales; 0: none
};

struct CodeStep {
  Opcode opcode = Opcode::map;
  Function function = Function::none;
  Phase phase = Phase::forward;
  std::uint8_t stream = compute_stream;
  std::int32_t layer = -1;
  float dropout = 0;
  CausalMask causal;
  std::int32_t region = -1;
  std::vector<AxisId> axes;  // communication: over which axes
  Reduction reduction = Reduction::sum;
  std::string cause;  // communication: which layouts differ
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  std::vector<ValueId> waits_for;
  std::int64_t pieces = 1;  // broadcast: one instruction for each
  std::string label;
  std::int32_t work_table = -1;   // Instruction::work_table
  SequencePart part;              // attention
  Peer peer;                      // SEND, RECV
  bool soft_cap = false;          // Instruction::soft_cap
  bool alibi = false;             // Instruction::alibi
  std::vector<double> constants;  // Instruction::constants
};

// A weight's copies in fp8, which outlive a pass: rows for the forward product, columns for that of the
// input's gradient. One may be the weight itself, or both the same.
struct QuantisedParameter {
  ValueId weight = no_index, row = no_index, column = no_index;
  std::int32_t layer = -1;
  bool is_copy(ValueId value) const { return value != weight && (value == row || value == column); }
};

struct ChunkCode {
  std::vector<Value> values;
  std::vector<CodeStep> forward;
  std::vector<CodeStep> backward;
  std::vector<ValueId> parameters;                 // in order of first use
  std::vector<ValueId> parameter_gradients;        // of the same parameters
  std::vector<std::vector<AxisId>> gradient_axes;  // over which each is still to be summed at the step's end
  std::vector<bool> of_experts;                    // by parameter: every expert has one of its own
  std::vector<QuantisedParameter> quantised;       // fp8
  ValueId largest = no_index;  // fp8, delayed scaling: the largest values that a forward pass has seen
  // What crosses the stage's borders, by Partition::borders: activations received from the stage before and
  // sent to the next, and their gradients the other way (no_index: has none). What a stage only passes on is
  // one value on both sides.
  std::vector<ValueId> inputs, outputs;
  std::vector<ValueId> output_gradients, input_gradients;
};

// Which operators a recompute region repeats: consecutive operators of one checkpoint. -1: kept as they are.
struct RecomputeRegions {
  std::vector<std::int32_t> region_of;  // by operator, whole graph
  std::vector<bool> discards_output;    // by region: values read outside it are recomputed too, not kept
                                        // (output-discarding checkpoints)
  std::vector<bool> repeats;            // by region: every reader recomputes it for itself
  // Of the partial sums of an operator that is kept, their sum is kept in their place.
  bool keeps_sums = false;
};
struct Partition;
// Throws ConfigError with every scope of `recompute.saved` that holds no operator of a layer, where it
// stands.
RecomputeRegions recompute_regions(const Graph& graph, const RecomputeConfig& config,
                                   const Partition& partition);

class ContextParallelism;  // schedules/context_parallel.h
struct Fp8Linears;         // schedules/fp8_linears.h

// The gradient of a parameter; no_index: the chunk has none.
inline ValueId gradient_of(const ChunkCode& code, TensorId parameter) {
  for (std::size_t p = 0; p < code.parameters.size(); ++p)
    if (code.values[code.parameters[p]].tensor == parameter) return code.parameter_gradients[p];
  return no_index;
}

// A tensor crossing a border, in the layout in which it does.
struct BorderTensor {
  TensorId tensor = 0;
  Layout layout;
};

// How what comes over a border reaches all ranks: the axes along which only the first receives it, and in how
// many pieces it does.
struct BorderBroadcast {
  std::vector<AxisId> axes = {};
  std::int64_t pieces = 1;
};

// Everything that lowering one chunk needs to know.
struct ChunkContext {
  const Graph& graph;
  const std::vector<Layout>& layouts;  // by operator
  const RecomputeRegions& regions;
  const DeviceMesh& mesh;
  const std::vector<std::uint8_t>& stream_of_axis;
  std::uint8_t expert_stream;  // of what expert-parallel ranks exchange
  ContextParallelism& context_parallel;
  Dtype gradient_dtype;                       // of activation gradients
  std::vector<std::size_t> operators;         // of the chunk, in graph order
  std::vector<BorderTensor> inputs, outputs;  // that cross its borders
  BorderBroadcast from_before = {}, from_behind = {};
  const Fp8Linears* fp8 = nullptr;  // null: nothing runs in fp8
};

// Has a dimension of this name.
bool has_dimension(const Graph& graph, TensorId tensor, const char* name);
// Forward steps: each operator in its layout, with the conversions of its inputs before it.
void lower_forward(const ChunkContext& context, ChunkCode& code);

// Backward steps, by reverse-mode differentiation of the operators. For each operator: values it reads are
// taken from what the forward pass kept, gathered again (a gathered copy is never kept) or recomputed; input
// gradients come first, then the communication that they need, then weight gradients, which overlap with it.
// Marks the forward values that must be kept.
void lower_backward(const ChunkContext& context, ChunkCode& code);

}  // namespace simrun
