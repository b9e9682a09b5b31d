#pragma once

#include <cstdint>
#include <vector>

#include "schedules/plan.h"
#include "schedules/timeline.h"

// A step timed pass by pass: what is inside a pass is worked out once, and only passes, the transfers between
// them and the end of the step are run.
namespace simrun {

// A gradient reduction that begins inside a pass and that the pass does not wait for.
struct PassReduction {
  Picoseconds before_end = 0;  // its inputs are there so long before the pass ends
  Picoseconds duration = 0;
};

enum class PassLevelKind : std::uint8_t { pass, send, recv };

// What every pass, or end of a transfer, of one kind and one stage takes. Bytes: of one GPU.
struct PassLevelSegment {
  PassLevelKind kind = PassLevelKind::pass;
  // pass: compute, with the collectives that it waits for, before it needs what another rank sends and from
  // then on. A transfer takes `behind`, on its stream.
  Picoseconds before = 0, behind = 0;
  std::uint8_t stream = 0;
  Picoseconds earliest_end = 0;  // of a pass, from the step's begin: what it reads is gathered meanwhile
  std::int64_t net_bytes = 0, peak_bytes = 0;  // left behind, and at most, above what was there before it
  std::vector<PassReduction> reductions = {};
};

// `transfer`: the one whose end this is, or whose result the pass needs; negative: none.
struct PassLevelEntry {
  Index segment = 0;
  std::int32_t transfer = -1;
};

// The end of a step behind a rank's last pass: reductions that are left, the gradient norm, the optimizer,
// parameter gathers. Ranks meet in steps of one `meeting` (negative: of none).
struct PassLevelEndStep {
  Picoseconds duration = 0;
  std::uint8_t stream = 0;
  std::int32_t meeting = -1;
  std::vector<std::int32_t> reads = {}, writes = {};  // of other streams' results, numbered by rank
};

struct PassLevelRank {
  std::vector<PassLevelEntry> entries;
  std::vector<PassLevelEndStep> end;
  std::int32_t results = 0;           // numbers of `reads` and `writes`
  std::vector<bool> from_reductions;  // by result: overlapped reductions write it
  Picoseconds gathered = 0;           // parameters that the step before updated, from the step's begin
  std::int64_t start_bytes = 0;       // weights, gradients, optimizer
  std::int64_t end_peak_bytes = 0;    // of the step's end, above what the passes leave
};

struct PassLevelPlan {
  std::vector<PassLevelSegment> segments;
  std::vector<PassLevelRank> ranks;
  std::int32_t transfers = 0;
  std::vector<std::int32_t> meetings;  // ranks that each expects
  std::uint8_t streams = 0, reducing_stream = 0;
};

// Collapses a plan's passes, each priced once. Throws std::invalid_argument with the reason where that is no
// plan of whole passes: ranks of a stage are unequal, weights are gathered within passes, compute is slowed
// down or blocked by communication, a pass needs two transfers.
PassLevelPlan pass_level_plan(const Plan& plan);

}  // namespace simrun
