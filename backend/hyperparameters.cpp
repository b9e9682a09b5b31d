#include "backend/hyperparameters.h"

namespace simrun {

Hyperparameters hyperparameters_of(const Plan& plan) {
  Hyperparameters numbers;
  for (const Segment& segment : plan.segments)
    for (const Instruction& what : segment.instructions) {
      const std::vector<double>& constants = what.constants;
      if (what.opcode != Opcode::optimizer || constants.size() < 7) continue;
      numbers.learning_rate = constants[1];
      numbers.beta1 = constants[2];
      numbers.beta2 = constants[3];
      numbers.epsilon = constants[4];
      numbers.weight_decay = constants[5];
      numbers.momentum = constants[6];
      return numbers;
    }
  return numbers;
}

}  // namespace simrun
