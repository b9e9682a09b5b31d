#include "sim/score_tensors.h"

#include "sim/attention_cost.h"

namespace simrun {

ScoreTensors score_tensors(const Plan& plan, const Instruction& instruction) {
  const bool is_backward = instruction.opcode == Opcode::attention_backward;
  if (instruction.function != Function::unfused || (!is_backward && instruction.opcode != Opcode::attention))
    return {};
  const AttentionShape shape = attention_shape(plan, instruction);
  const SoftmaxKernel kernel = softmax_kernel(plan, instruction, shape);
  const std::int64_t half = bytes_of(shape.dtype), wide = bytes_of(Dtype::fp32);
  if (kernel == SoftmaxKernel::fused || half >= wide) return {};
  const std::int64_t scores = shape.batch * shape.heads * shape.sequence * shape.key_sequence;
  // Scores are filled where they lie; a gradient is in front of softmax and one behind it, less the
  // probabilities.
  if (kernel == SoftmaxKernel::separate_half) return {.kept = 0, .brief = scores * half};
  const bool is_cast_before = kernel == SoftmaxKernel::separate;
  if (is_backward) return {.kept = 0, .brief = scores * (wide + (is_cast_before ? wide - half : 0))};
  return {.kept = scores * (instruction.dropout > 0 ? wide - half : wide),
          .brief = scores * (half + (is_cast_before ? wide : half))};
}

}  // namespace simrun
