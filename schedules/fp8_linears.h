#pragma once

#include <vector>

#include "configs/job.h"
#include "models/graph.h"
#include "schedules/chunk_code.h"
#include "schedules/device_mesh.h"

// Linear layers in fp8 as Transformer Engine runs them: the three products of every linear layer within the
// layers (models/linear_layers.h) read fp8 and write the job's precision; everything else is as without fp8.
// Under nvfp4 they read fp4, and "fp8" below is to be read so; the paper keeps the first and last layers
// wide, here, as in Megatron-Bridge's recipe, none is.
//
//   Casts       explicit MAPs. What a product reads is cast in front of it, once per value: an input, a
//               gradient of an output, a weight. Two copies where products want them (below): one kernel
//               reads the value and writes both.
//   Scales      delayed: from earlier passes; each pass ends with an all-reduce of the largest values over
//               all tensor, context and data parallel ranks and an update (fp8_autocast_exit,
//               reduce_and_update_fp8_tensors). tensorwise: a kernel reads the value before the cast.
//               blockwise, mxfp8: the cast finds them itself; they are counted in memory and traffic.
//               nvfp4: as tensorwise for the tensor's scale, as mxfp8 for those of blocks. A weight's square
//               of 16 x 16 has its scale once per row, as the tensor cores read it. Rotations and random
//               rounding happen within the cast, which writes both copies, and are taken to cost nothing
//               beside its bytes; what they add on a GPU was not found published.
//   Copies      A product along the tokens (weight gradient), and that of the input's gradient along the
//               weight's columns, need their operands transposed on GPUs whose fp8 products contract only
//               along rows (Hopper), and scaled the other way where scales are per block.
//   Saved       the copy for the weight's gradient in place of the wide input. Where the wide one is kept
//               anyway (attention reads its own output), it is cast again, as Megatron-Core lets it
//               (set_save_original_input), except under delayed scaling, which keeps both.
//   Collectives Gathers of a product's input in front of it (sequence parallel) are of fp8, and so are those
//               of an output's gradient where one scale is enough for both copies, or both copies are of fp4;
//               under tensorwise scaling and nvfp4 the ranks agree on a tensor's scale first. Reductions and
//               the exchanges of experts stay wide.
//   Weights     cast by the first microbatch of a step and kept; under ZeRO-3 wherever they are gathered.
//               With fp8 parameters the weights are one of the copies.
namespace simrun {

struct Fp8Linears {
  Fp8Recipe recipe = Fp8Recipe::delayed;
  bool two_copies = true;
  bool parameters = false;        // the weights themselves are fp8
  std::vector<bool> is_linear;    // by operator
  std::vector<AxisId> all_ranks;  // axes over which delayed scaling finds the largest values
  // Of that exchange: Transformer Engine's amax_reduction_group has a communicator of its own, which does not
  // wait behind gradients.
  std::uint8_t stream = 0;

  Dtype dtype() const { return operand_dtype(recipe); }
  bool transposes() const { return two_copies && scales_whole_tensors(recipe); }
};

// Throws std::invalid_argument where a linear layer's local matrices do not split into fp8's units: 16
// elements (Transformer Engine's assert_dim_for_fp8_exec), 32 under mxfp8 and nvfp4.
Fp8Linears fp8_linears(const Job& job, const Graph& graph, const std::vector<Layout>& layouts,
                       const DeviceMesh& mesh);

// A value's copies in fp8; no_index: not wanted. The same one twice where one is enough.
struct QuantisedValue {
  ValueId row = no_index, column = no_index;
};

// Writes casts into a chunk's code.
class Fp8Casts {
 public:
  // Refers to its arguments. `context.fp8` may be null if nothing is called.
  Fp8Casts(const ChunkContext& context, ChunkCode& code) : context_(context), code_(code) {}

  struct Copies {
    bool row = true, column = true;
  };
  // Where a cast goes, and what it is labelled with.
  struct Place {
    std::vector<CodeStep>& steps;
    Phase phase = Phase::forward;
    std::int32_t layer = -1;
    std::int32_t region = -1;
    std::vector<AxisId> shared_over = {};  // ranks that must agree on one scale
  };
  QuantisedValue cast(ValueId value, Copies wanted, Place place);
  // For products along the tokens of what was gathered.
  ValueId transposed(ValueId row, Place place);
  // The copies of a weight, made when first asked for.
  const QuantisedParameter& weight(ValueId parameter, std::int32_t layer);
  // Delayed scaling: the end of a pass.
  void update_scales(Place place);

 private:
  static CodeStep step_at(const Place& place, Opcode opcode, Function function);
  ValueId add_copy(ValueId of, Phase phase, const char* suffix, std::int32_t scale_block);
  ValueId add_numbers(ValueId like, Phase phase, const char* suffix, std::int64_t count);
  ValueId largest_of(ValueId value, const Place& place);

  const ChunkContext& context_;
  ChunkCode& code_;
  ValueId largest_ = no_index;  // of the pass at hand
  std::int64_t tensors_ = 0;    // cast in it
};

// Which copies of its output's gradient a linear layer reads: rows for the gradient of its input, columns for
// that of its weight, if they are wanted.
Fp8Casts::Copies copies_of_gradient(const Graph& graph, const Operator& linear);

// Those that are gathered of the gradient of this tensor, for the linear layers of the chunk that put it out:
// where a tensor has one scale, both products read the same rows.
Fp8Casts::Copies copies_gathered_of_gradient(const ChunkContext& context, TensorId output);

// The axes over which the gradient of a linear layer's output, the sum of `summands`, is gathered in fp8 on
// its way to the layout that the layer reads; empty: it is not. A bias sums the wide gradient.
std::vector<AxisId> fp8_gather_axes(const ChunkContext& context, const ChunkCode& code, TensorId output,
                                    const std::vector<ValueId>& summands, const Layout& wanted);

// Behind lower_backward: what is kept for the backward pass is settled. See "Saved" above; copies that nobody
// reads (of a pass that is recomputed) are not written.
void settle_saved_copies(const ChunkContext& context, ChunkCode& code);

}  // namespace simrun
