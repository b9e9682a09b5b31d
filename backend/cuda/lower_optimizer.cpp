#include <algorithm>
#include <cmath>

#include "backend/cuda/lower.h"

namespace simrun::cuda {

template <class Math>
void lower_optimizer(LaunchList<Math>& list) {
  const KernelCall& call = list.call;
  const Hyperparameters& with = call.training;
  const std::vector<Index>& read = call.what.inputs;
  const bool has_main = std::find(read.begin(), read.end(), call.what.outputs[0]) == read.end();
  const std::size_t moments_end = call.outputs.size() - (has_main ? 1 : 0);
  UpdateElement<Math> kernel{};
  kernel.count = elements(call.outputs[0].part);
  kernel.gradient = list.input(0);
  kernel.weights = list.output(0);
  kernel.main = list.output(has_main ? call.outputs.size() - 1 : 0);
  if (moments_end > 1) kernel.first = list.output(1);
  if (moments_end > 2) kernel.second = list.output(2);
  if (!call.what.constants.empty() && call.what.constants[0] > 0) {
    kernel.squares = list.input(call.inputs.size() - 1);
    kernel.most_norm = call.what.constants[0];
  }
  const auto steps = static_cast<double>(call.step + 1);
  kernel.rate = with.learning_rate;
  kernel.beta1 = with.beta1;
  kernel.beta2 = with.beta2;
  kernel.epsilon = with.epsilon;
  kernel.decay = with.weight_decay;
  kernel.momentum = with.momentum;
  kernel.first_correction = 1 / (1 - std::pow(with.beta1, steps));
  kernel.second_correction = 1 / (1 - std::pow(with.beta2, steps));
  kernel.is_adam = call.what.function == Function::adam;
  list.add(kernel);
}

template void lower_optimizer(LaunchList<float>&);
template void lower_optimizer(LaunchList<double>&);

}  // namespace simrun::cuda
