#pragma once

#include <array>
#include <cstdint>

#include "schedules/held_memory.h"
#include "schedules/plan.h"
#include "sim/caching_allocator.h"
#include "sim/compiled_program.h"
#include "sim/memory.h"

namespace simrun {

// What an allocator holds while one GPU runs a step of its program.
struct ReplayedStep {
  std::int64_t allocated = 0;  // most at one moment
  // What that is made of: bytes by kind, then what sizes are rounded up by.
  std::array<std::int64_t, held_tensor_kinds> by_kind{};
  std::int64_t rounding = 0;
  std::int64_t reserved = 0;  // most of the device at one moment; an arena: as much as is allocated
};

// Replays the births and FREEs of the program's buffers in issue order, as walk_memory() does, through the
// framework's allocator, and between them the tensors that the framework keeps beyond the plan's
// (FrameworkMemory). The step is the steady one; its buffers of run scope are there when it begins.
//
// Of a pipeline's steady phase, where every period repeats the one before with later microbatches, only the
// first two periods and the last two are replayed: what they leave is renamed to what the skipped ones would
// have left. The cost is that of the program's distinct entries, whatever the number of microbatches.
ReplayedStep replay_allocations(const Plan& plan, const Program& program, std::int64_t local_gpu,
                                CachingRules rules);

}  // namespace simrun
