#pragma once

#include <cstdint>

#include "schedules/held_memory.h"
#include "schedules/plan.h"

namespace simrun {

// What of a GPU's memory cannot be given to anything else: what it holds, without the part of an arena in
// which no tensor lies. An arena that is larger than the GPU has no such part: it cannot be had.
std::int64_t needed_bytes(const Plan& plan, const Gpu& gpu, const HeldMemory& held);

// What the GPU has for the plan's own bytes, of which `peak_bytes` are live at once: all but the driver's and
// what `held` counts beside them. The plan fits exactly if its peak is at most that.
std::int64_t memory_limit(const Plan& plan, const Gpu& gpu, const HeldMemory& held, std::int64_t peak_bytes);

}  // namespace simrun
