#pragma once

#include <vector>

#include "schedules/plan.h"
#include "schedules/timeline.h"
#include "sim/durations.h"

// A Plan made flat for the engine's inner loop: one array of steps per segment, no names, no shapes.
namespace simrun {

// Which of a plan's two steps runs: the steady one skips first_only entries, the first one not_first entries.
enum class WhichStep : std::uint8_t { steady, first };
constexpr bool runs_in(Steps steps, WhichStep step) {
  return steps == Steps::every || (steps == Steps::first_only) == (step == WhichStep::first);
}

// Where the time of a buffer's last write by one stream is kept: slot base + selectors[selector] of its rank.
// Per entry, selectors[0] = 0, selectors[1 + 2 b] = the instance (microbatch and slice) of binding b,
// selectors[2 + 2 b] = b.
struct SlotReference {
  Index base = 0;
  Index selector = 0;
};

// One timed instruction of a segment. FREE and INIT take no time and have no step.
struct CompiledStep {
  Picoseconds duration = 0;
  Index channel = no_index;  // dense, into CompiledPlan::channels
  Index first_read = 0;      // into CompiledRank::references: writes by other streams that it must wait for
  Index first_write = 0;     // likewise: its own writes that others wait for
  std::uint16_t reads = 0, writes = 0;
  Index instruction = 0;  // in the segment
  std::uint8_t stream = 0;
  std::uint8_t binding = 0;
  Traffic traffic = Traffic::compute;
  bool pipeline_arrival = false;  // brings data over the pipeline: what `p2p` idle time is about
};
static_assert(sizeof(CompiledStep) == 32);

struct CompiledSegment {
  Index first_step = 0, steps = 0;                          // into CompiledRank::steps
  Index first_compute = no_index, last_compute = no_index;  // steps of the segment on the compute stream
  Index communications = 0;
  Picoseconds compute = 0;  // sum on the compute stream
};

struct CompiledEntry {
  Index segment = 0;        // into CompiledRank::segments
  Index entry = 0;          // in the plan's program
  Index first_binding = 0;  // into CompiledRank::instances
  Index bindings = 0;
};

struct CompiledRank {
  std::vector<CompiledEntry> entries;  // those of the step that runs
  std::vector<CompiledSegment> segments;
  std::vector<CompiledStep> steps;
  std::vector<SlotReference> references;
  std::vector<Index> instances;  // by binding: (slice, microbatch) as one number
  Index slots = 0;
  Index first_backward = no_index;  // into `entries`
  Index last_forward = no_index;
};

// Both ends (or all stages) of one exchange; instance i of it is rendezvous first_rendezvous + i.
struct Channel {
  Index first_rendezvous = 0;
  Index expected = 0;  // arrivals
  std::vector<std::int32_t> pipeline_ranks;
};

struct CompiledPlan {
  std::vector<CompiledRank> ranks;
  std::vector<Channel> channels;
  Index rendezvous = 0;
};

// Throws std::runtime_error if a communication is on the compute stream.
CompiledPlan compile_programs(const Plan& plan, WhichStep step, Durations& durations);

}  // namespace simrun
