#pragma once

#include "schedules/plan.h"
#include "schedules/timeline.h"
#include "sim/compiled_program.h"
#include "sim/memory.h"

namespace simrun {

// What one run of a compiled plan gives beside its ranks' totals and intervals.
struct EngineRun {
  Picoseconds step = 0;
  std::int64_t instructions = 0;
  std::int64_t communications = 0;
  std::vector<RankTimeline> ranks;                   // without peaks and memory events
  std::vector<std::vector<IssueTimes>> issue_times;  // by rank and entry of the plan; from Detail::passes on
};

// Runs every rank's streams. A rank consumes instructions without any event until it needs a time that
// another rank has yet to decide: then it is parked until that exchange is complete. Times do not depend on
// the order in which ranks are served.
EngineRun run_engine(const Plan& plan, const CompiledPlan& compiled, Detail detail);

}  // namespace simrun
