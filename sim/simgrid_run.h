#pragma once

#include "schedules/plan.h"
#include "schedules/timeline.h"
#include "sim/compiled_program.h"
#include "sim/durations.h"
#include "sim/stream_engine.h"

namespace simrun {

struct SimgridRun {
  EngineRun run;
  std::vector<LinkTimeline> links;
  std::int64_t flows = 0;         // that went over links which can be shared
  std::int64_t shared_flows = 0;  // of these, that met another one
};

// Runs every GPU of a compiled plan; exchanges that cross a link which another group of GPUs or another
// stream uses are flows of a Network. At most one run per process (sim/flow_engine.h).
SimgridRun run_with_simgrid(const Plan& plan, const CompiledPlan& compiled, Durations& durations,
                            Detail detail);

}  // namespace simrun
