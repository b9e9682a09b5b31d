#include "visualizer/bound_chunks.h"

#include <algorithm>

namespace simrun {

BoundChunks::BoundChunks(const Plan& plan) : plan_(plan), second_(plan.segments.size(), no_index) {
  for (const Program& program : plan.programs)
    for (const Entry& entry : program.entries)
      if (const Binding* second = binding_of(program, entry, 1)) second_.at(entry.segment) = second->chunk;
}

Index BoundChunks::of(Index segment, std::uint8_t binding) const {
  const Index chunk = binding == 0 ? plan_.segments[segment].chunk : second_[segment];
  return chunk < plan_.chunks.size() ? chunk : no_index;
}

const Binding* binding_of(const Program& program, const Entry& entry, std::uint8_t which) {
  const std::size_t place = std::size_t{entry.first_binding} + which;
  return which < entry.binding_count && place < program.bindings.size() ? &program.bindings[place] : nullptr;
}

bool is_bidirectional(const Plan& plan) {
  return std::any_of(plan.programs.begin(), plan.programs.end(), [](const Program& program) {
    return std::any_of(program.bindings.begin(), program.bindings.end(),
                       [](const Binding& binding) { return binding.direction == Direction::up; });
  });
}

}  // namespace simrun
