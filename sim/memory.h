#pragma once

#include <array>
#include <cstdint>
#include <numeric>
#include <vector>

#include "schedules/buffer_instances.h"
#include "schedules/extent_tables.h"
#include "schedules/plan.h"
#include "schedules/timeline.h"
#include "sim/compiled_program.h"

namespace simrun {

using LiveBytes = std::array<std::int64_t, category_count>;
inline std::int64_t total(const LiveBytes& live) {
  return std::accumulate(live.begin(), live.end(), std::int64_t{0});
}

// Live bytes at two moments of one entry, in issue order: at its highest point and when all of it is issued.
struct EntryMemory {
  Index entry = 0;
  LiveBytes peak{};
  LiveBytes after{};
};

struct MemoryWalk {
  LiveBytes start{};  // the buffers of run scope
  MemoryPeak peak;
  std::vector<EntryMemory>
      entries;  // only of entries that change or exceed what was live, and only if asked for
};

enum class MemoryDetail : std::uint8_t { peak, entries };

// Walks the program of one GPU of a rank in issue order. A buffer instance lives from its first writer to its
// FREE; buffers of run scope that the program touches live for ever; a view owns nothing, writing one writes
// its owner. Linear in entries: what a segment adds, frees and holds at most is worked out once per state of
// the wider-than-microbatch buffers that it touches, because it is the same for every microbatch.
//
// Where extents come from tables (schedules/extent_tables.h), buffers have those of the GPU and of the
// microbatch that they are bound to; buffers of wider scopes those of the GPU's largest microbatch.
//
// Of the buffers in one memory: what a GPU has in its node's memory or on its drives is walked by itself.
struct MemoryPlace {
  std::int64_t local_gpu = 0;
  MemorySpace space = MemorySpace::device;
};
MemoryWalk walk_memory(const Plan& plan, const Program& program, WhichStep step, MemoryDetail detail,
                       MemoryPlace place);

// Of the GPU of the rank with the highest peak, the first of equals.
MemoryWalk walk_memory(const Plan& plan, const Program& program, WhichStep step, MemoryDetail detail);

// The most bytes that one GPU of the rank has in a memory other than its own; 0 if the plan uses it nowhere.
std::int64_t peak_outside(const Plan& plan, const Program& program, MemorySpace space);

// Live bytes over time. times[i]: when entry i of the program began to be issued and when it was issued.
struct IssueTimes {
  Picoseconds begin = 0, end = 0;
};
std::vector<MemoryEvent> memory_events(const MemoryWalk& walk, const std::vector<IssueTimes>& times);

}  // namespace simrun
