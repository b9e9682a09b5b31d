#pragma once

#include "models/opcode.h"

namespace simrun {

// Bus bandwidth over algorithm bandwidth (bytes / time), as nccl-tests reports them: what links carry
// whatever the number of ranks. Source: nccl-tests, doc/PERFORMANCE.md.
constexpr double bus_factor(Opcode opcode, double ranks) {
  switch (opcode) {
    case Opcode::all_reduce: return 2 * (ranks - 1) / ranks;
    case Opcode::all_gather:
    case Opcode::reduce_scatter:
    case Opcode::all_to_all: return (ranks - 1) / ranks;
    default: return 1;
  }
}

}  // namespace simrun
