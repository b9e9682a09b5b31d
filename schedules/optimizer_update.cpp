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
  instruction.inputs = {bucket.gradient_shard};
  instruction.outputs = {bucket.weight_shard};
  for (const Index state : {bucket.exp_avg, bucket.exp_avg_sq, bucket.main_weights})
    if (state != no_index) instruction.outputs.push_back(state);
  instruction.outputs.insert(instruction.outputs.end(), bucket.more_state.begin(), bucket.more_state.end());
  instruction.inputs.insert(instruction.inputs.end(), instruction.outputs.begin() + 1,
                            instruction.outputs.end());
  // Without main weights the weights themselves are read.
  if (bucket.main_weights == no_index) instruction.inputs.push_back(bucket.weight_shard);
  if (norm != no_index) instruction.inputs.push_back(norm);
  instruction.label = "optimizer";
  return instruction;
}

}  // namespace simrun
