#pragma once

#include <utility>
#include <vector>

#include "schedules/plan.h"

namespace simrun {

// The instruction that ends the life of these buffers.
inline Instruction release_of(std::vector<Index> buffers, Phase phase) {
  Instruction release;
  release.opcode = Opcode::free;
  release.phase = phase;
  release.inputs = std::move(buffers);
  return release;
}

}  // namespace simrun
