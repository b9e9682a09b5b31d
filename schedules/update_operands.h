#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>

#include "schedules/plan.h"

// Which operand of an OPTIMIZER is what: outputs are the weights, then moments, main weights and other state
// (schedules/optimizer_update.h).
namespace simrun {

// First and second moments, each as long as the weights.
inline std::size_t moments_of(const Instruction& update) {
  if (update.function == Function::adam) return 2;
  if (update.function != Function::sgd) return 0;
  return update.constants.size() > 6 && update.constants[6] == 0 ? 0 : 1;
}

// The output that has main weights, of which the weights are a copy; none: the weights themselves are
// updated, or the instruction only prepares an update.
inline std::optional<std::size_t> main_weights_of(const Plan& plan, const Instruction& update) {
  if (plan.buffers[update.outputs.front()].category != Category::weights) return {};
  const auto& read = update.inputs;
  if (std::find(read.begin(), read.end(), update.outputs.front()) != read.end()) return {};
  return 1 + moments_of(update);
}

}  // namespace simrun
