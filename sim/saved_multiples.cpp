#include "sim/saved_multiples.h"

#include <cstddef>

#include "schedules/buffer_instances.h"

namespace simrun {
namespace {

// Of packed q, k, v, where each key head has `group` query heads: 2 (group - 1) more of its group + 2.
double share_of_repeated_heads(const Plan& plan, const Buffer& packed) {
  for (const BufferDim& dim : packed.dims)
    if (plan.dimension_names[dim.name] == "qkv")
      return 2 * static_cast<double>(dim.extent - 3) / static_cast<double>(dim.extent);
  return 0;
}

}  // namespace

SavedMultiples::SavedMultiples(const FrameworkMemory& memory) {
  const auto named = [&](const char* name) {
    const auto found = memory.saved.find(name);
    return found == memory.saved.end() ? 0.0 : found->second;
  };
  for (int f = 0; f < function_count; ++f)
    by_function[static_cast<std::size_t>(f)] = named(to_string(static_cast<Function>(f)));
  gathered_logits = named("gathered_logits");
  repeated_kv = named("repeated_kv");
}

double SavedMultiples::beside(const Plan& plan, const Instruction& instruction) const {
  const double saved = by_function[static_cast<std::size_t>(instruction.function)];
  if (repeated_kv == 0 || instruction.function != Function::rope) return saved;
  return saved +
         repeated_kv * share_of_repeated_heads(plan, plan.buffers[owner_of(plan, instruction.outputs.at(0))]);
}

}  // namespace simrun
