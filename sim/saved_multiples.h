#pragma once

#include <array>

#include "configs/framework_memory.h"
#include "schedules/plan.h"

namespace simrun {

// FrameworkMemory::saved: what operators keep for the backward pass beyond the plan's tensors.
struct SavedMultiples {
  explicit SavedMultiples(const FrameworkMemory& memory);
  // In multiples of the bytes of the instruction's first output.
  double beside(const Plan& plan, const Instruction& instruction) const;

  std::array<double, function_count> by_function{};
  double gathered_logits = 0, repeated_kv = 0;
};

}  // namespace simrun
