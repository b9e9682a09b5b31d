#include "schedules/optimizer_update.h"

namespace simrun {
namespace {

Function function_of(UpdateRule rule) {
  switch (rule) {
    case UpdateRule::sgd: return Function::sgd;
    case UpdateRule::adafactor: return Function::adafactor;
    case UpdateRule::muon: return Function::muon;
    default: return Function::adam;
  }
}

}  // namespace

Instruction optimizer_update(const ParameterBucket& bucket, Index norm, const OptimizerConfig& optimizer) {
  Instruction instruction;
  instruction.opcode = Opcode::optimizer;
  instruction.function = function_of(optimizer.name);
  instruction.phase = Phase::optimizer;
  // Part of the shard may be the host's.
  const Index gradients = bucket.kept_gradients == no_index ? bucket.gradient_shard : bucket.kept_gradients;
  const Index weights = bucket.kept_weights == no_index ? bucket.weight_shard : bucket.kept_weights;
  instruction.inputs = {gradients};
  instruction.outputs = {weights};
  for (const Index state : {bucket.exp_avg, bucket.exp_avg_sq, bucket.main_weights})
    if (state != no_index) instruction.outputs.push_back(state);
  instruction.outputs.insert(instruction.outputs.end(), bucket.more_state.begin(), bucket.more_state.end());
  instruction.inputs.insert(instruction.inputs.end(), instruction.outputs.begin() + 1,
                            instruction.outputs.end());
  // Without main weights the weights themselves are read.
  if (bucket.main_weights == no_index) instruction.inputs.push_back(weights);
  if (norm != no_index) instruction.inputs.push_back(norm);
  instruction.label = "optimizer";
  return instruction;
}

}  // namespace simrun
