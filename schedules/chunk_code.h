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
  std::string label;
  std::int32_t work_table = -1;  // Instruction::work_table
  SequencePart part;             // attention
  Peer peer;                     // SEND, RECV
  bool soft_cap = false;         // Instruction::soft_cap
};

struct ChunkCode {
  std::vector<Value> values;
  std::vector<CodeStep> forward;
  std::vector<CodeStep> backward;
  std::vector<ValueId> parameters;                 // in order of first use
  std::vector<ValueId> parameter_gradients;        // of the same parameters
  std::vector<std::vector<AxisId>> gradient_axes;  // over which each is still to be summed at the step's end
  std::vector<bool> of_experts;                    // by parameter: every expert has one of its own
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
};
struct Partition;
RecomputeRegions recompute_regions(const Graph& graph, const RecomputeConfig& config,
                                   const Partition& partition);

class ContextParallelism;  // schedules/context_parallel.h

// A tensor crossing a border, in the layout that its first reader behind it wants.
struct BorderTensor {
  TensorId tensor = 0;
  Layout layout;
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
};

// Has a dimension of this name.
bool has_dimension(const Graph& graph, TensorId tensor, const char* name);
// Adds to the axes over which a value is a summand.
void add_partial(Layout& layout, const std::vector<AxisId>& axes);
// Stream on which a conversion of this tensor runs. `of_all_tokens`: to or from an operator that gathers
// them.
std::uint8_t stream_of(const ChunkContext& context, TensorId tensor, const Conversion& conversion,
                       bool of_all_tokens);

// Forward steps: each operator in its layout, with the conversions of its inputs before it.
void lower_forward(const ChunkContext& context, ChunkCode& code);

// Backward steps, by reverse-mode differentiation of the operators. For each operator: values it reads are
// taken from what the forward pass kept, gathered again (a gathered copy is never kept) or recomputed; input
// gradients come first, then the communication that they need, then weight gradients, which overlap with it.
// Marks the forward values that must be kept.
void lower_backward(const ChunkContext& context, ChunkCode& code);

}  // namespace simrun
