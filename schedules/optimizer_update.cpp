#include "schedules/optimizer_update.h"

#include "schedules/adafactor_update.h"
#include "schedules/muon_update.h"

namespace simrun {

std::vector<double> update_constants(const UpdateContext& context) {
  const OptimizerConfig& optimizer = context.step.optimizer;
  const UpdateNumbers& numbers = optimizer.numbers;
  return {context.norm == no_index ? 0 : optimizer.clip_grad,
          numbers.lr,
          numbers.adam_beta1,
          numbers.adam_beta2,
          numbers.adam_eps,
          numbers.weight_decay,
          optimizer.name == UpdateRule::muon ? numbers.muon_momentum : optimizer.sgd_momentum};
}

Instruction update_kernel(const UpdateContext& context, const ParameterBucket& bucket, Function function,
                          Index gradients) {
  Instruction instruction;
  instruction.opcode = Opcode::optimizer;
  instruction.function = function;
  instruction.phase = Phase::optimizer;
  instruction.inputs = {gradients};
  // Part of the shard may be the host's.
  const Index weights = bucket.kept_weights == no_index ? bucket.weight_shard : bucket.kept_weights;
  instruction.outputs = {weights};
  for (const Index state : {bucket.exp_avg, bucket.exp_avg_sq, bucket.main_weights})
    if (state != no_index) instruction.outputs.push_back(state);
  instruction.outputs.insert(instruction.outputs.end(), bucket.more_state.begin(), bucket.more_state.end());
  instruction.inputs.insert(instruction.inputs.end(), instruction.outputs.begin() + 1,
                            instruction.outputs.end());
  // Without main weights the weights themselves are read.
  if (bucket.main_weights == no_index) instruction.inputs.push_back(weights);
  if (context.norm != no_index) instruction.inputs.push_back(context.norm);
  instruction.constants = update_constants(context);
  instruction.label = "optimizer";
  return instruction;
}

std::vector<Instruction> optimizer_update(const UpdateContext& context, const ParameterBucket& bucket) {
  const Index gradients = bucket.kept_gradients == no_index ? bucket.gradient_shard : bucket.kept_gradients;
  switch (context.step.optimizer.name) {
    case UpdateRule::adafactor: return adafactor_update(context, bucket);
    case UpdateRule::sgd: return {update_kernel(context, bucket, Function::sgd, gradients)};
    case UpdateRule::muon:
      if (bucket.orthogonalised) return muon_update(context, bucket);
      [[fallthrough]];
    default: return {update_kernel(context, bucket, Function::adam, gradients)};
  }
}

}  // namespace simrun
