#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schedules/held_memory.h"
#include "schedules/plan.h"

// What a run of a Plan gives, whoever ran it: an engine or real devices. Readers get the Plan beside it; a
// Timeline adds times.
namespace simrun {

using Picoseconds = std::int64_t;
inline double to_seconds(Picoseconds time) { return static_cast<double>(time) * 1e-12; }

// Why no compute runs although nothing is being transferred for this rank, or a pipeline transfer is:
//   warm_up    before the rank's first backward pass
//   drain      after its last forward pass (until the step ends)
//   imbalance  between the two: it waits for a neighbour's pass; and at any time: a collective of the rank's
//   own
//              mesh waits for GPUs with more to do (Plan::extent_tables)
//   p2p        a pipeline transfer to this rank that its next compute needs is in flight
enum class BubbleCause : std::uint8_t { warm_up, imbalance, drain, p2p };
constexpr int bubble_cause_count = 4;
const char* to_string(BubbleCause cause);

// compute + sum(exposed) + sum(bubble) = step of the Timeline, to the picosecond.
struct RankTotals {
  Picoseconds compute = 0;
  std::array<Picoseconds, traffic_count>
      exposed{};  // a collective or offload of that kind in flight, no compute running; by Traffic
  std::array<Picoseconds, bubble_cause_count> bubble{};
  std::array<Picoseconds, traffic_count>
      hidden{};  // in flight while compute runs, summed over streams (sends and receives included); what is
                 // in flight in a gap that counts as something else is in neither
  Picoseconds exposed_total() const;
  Picoseconds bubble_total() const;
  bool operator==(const RankTotals&) const = default;
};

// One instruction instance. Kind, stage, chunk, microbatch, bytes, FLOPs, peer and sequence follow from
// (entry, instruction) in the Plan. For communication `start` is the moment when all partners have arrived;
// `wait` is how long this rank's stream had waited by then.
struct Interval {
  Picoseconds start = 0;
  Picoseconds duration = 0;
  Picoseconds wait = 0;
  Index entry = 0;        // in the rank's program
  Index instruction = 0;  // in the entry's segment
  bool operator==(const Interval&) const = default;
};

// One stream of one recorded rank, in time order, without overlap.
struct Lane {
  std::uint8_t stream = 0;
  std::vector<Interval> intervals;
  bool operator==(const Lane&) const = default;
};

// From the start of a pass entry's first compute instruction to the end of its last one.
struct PassInterval {
  Picoseconds start = 0;
  Picoseconds duration = 0;
  Index entry = 0;
  bool operator==(const PassInterval&) const = default;
};

// Live bytes by category just after something changed them in issue order, at the time that it was issued or
// began.
struct MemoryEvent {
  Picoseconds time = 0;
  std::array<std::int64_t, category_count> live{};
  bool operator==(const MemoryEvent&) const = default;
};

struct MemoryPeak {
  std::int64_t bytes = 0;
  std::array<std::int64_t, category_count> live{};  // at that instant; sums to `bytes`
  Index entry = 0;
  Index instruction = 0;
  bool operator==(const MemoryPeak&) const = default;
};

struct RankTimeline {
  std::int32_t pipeline_rank = 0;
  std::int64_t device = 0;        // the recorded GPU, or the first of those that it stands for
  std::int64_t multiplicity = 1;  // how many equal GPUs this one stands for
  RankTotals totals;
  MemoryPeak peak;
  // What this GPU's rank has at most in its node's memory and on its node's drives (offload).
  std::int64_t host_bytes = 0, nvme_bytes = 0;
  std::optional<HeldMemory> held;    // under the plan's framework, where that says an allocator
  std::vector<Lane> lanes;           // recorded at Detail::instructions
  std::vector<PassInterval> passes;  // recorded at Detail::passes and above; entries with compute only
  std::vector<MemoryEvent> memory;   // recorded at Detail::passes and above; non-decreasing times
  bool operator==(const RankTimeline&) const = default;
};

// Traffic of one directed link during the steady step.
struct LinkTimeline {
  std::string name;               // node0.nic3.tx, node0.gpu5.nvlink_rx, rail3.leaf0.spine1.up
  double bandwidth = 0;           // bytes/s that transfers get (efficiency counted)
  std::int64_t multiplicity = 1;  // how many links with equal figures this one stands for
  std::int64_t bytes = 0;
  Picoseconds busy = 0;       // at least one transfer moves bytes over it
  Picoseconds contended = 0;  // two or more of different exchanges do
  // Share of the bandwidth in use, 0 to 1, mean over each of equal slices of the step; empty unless recorded
  // (Detail::passes and above, links of recorded GPUs).
  std::vector<float> utilisation;
  bool operator==(const LinkTimeline&) const = default;
};

enum class Detail : std::uint8_t { totals, passes, instructions };

struct Timeline {
  Picoseconds step = 0;        // steady step
  Picoseconds first_step = 0;  // the first one, without the gathers of parameters updated before
  std::string engine;          // "fast" or "simgrid"
  std::string engine_reason;   // why that one ran; a clause, e.g. "asked for"
  // The fast engine ignores that transfers share links: by at most this share of the step it may be wrong.
  // 0 for simgrid.
  double contention_bound = 0;
  std::string provenance;                       // device profile and seed
  std::int64_t instructions = 0;                // executed instances, all simulated ranks
  std::int64_t communication_instructions = 0;  // of these
  // By pipeline rank, then device. The first of each pipeline rank is recorded (lanes, passes, memory); an
  // engine that instantiates every GPU adds an unrecorded one for each class of GPUs of that rank with
  // other totals or another peak.
  std::vector<RankTimeline> ranks;
  std::vector<LinkTimeline> links;  // those that moved bytes, busiest first, then by name
  bool operator==(const Timeline&) const = default;
};

}  // namespace simrun
