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
  std::int64_t simulated = 0;     // GPUs; the others are like one of these
};

// Runs every GPU of a compiled plan; exchanges that cross a link which another group of GPUs or another
// stream uses are flows of a Network. At most one run per process (sim/flow_engine.h). `folds`: of what is
// alike (sim/symmetry.h) one is simulated for all, to the same dates; off for the tests that show it.
SimgridRun run_with_simgrid(const Plan& plan, const CompiledPlan& compiled, Durations& durations,
                            Detail detail, bool folds = true);

}  // namespace simrun
