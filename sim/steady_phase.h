#pragma once

#include <cstdint>

#include "schedules/plan.h"

namespace simrun {

// The periodic part of a program: entries [begin, end) where entry i + period runs the segment of entry i,
// bound to microbatches that are `shift` later. period 0: there is none of six periods or more.
struct SteadyPhase {
  Index begin = 0, end = 0, period = 0;
  std::int32_t shift = 0;
  bool operator==(const SteadyPhase&) const = default;
};

// Around the middle of the program, with the shortest period.
SteadyPhase steady_phase(const Program& program);

}  // namespace simrun
