#pragma once

#include "schedules/measured_comparison.h"
#include "schedules/plan.h"
#include "schedules/timeline.h"
#include "traces/imported_run.h"

namespace simrun {

// What was measured as a Timeline, and the Plan that it is one of: the plan that was predicted, with a
// segment for each phase of each imported rank behind its own, whose instructions are kernels. For viewers,
// not to be run or priced. A kernel that is not known is a MAP labelled so.
struct ImportedTimeline {
  Plan plan;
  // Of the imported ranks only; the first one of each pipeline rank has lanes and passes. engine:
  // imported_engine
  Timeline timeline;
};

// On pipeline ranks as the plan places the GPUs of the traces' ranks. Throws ConfigError if the plan has no
// such GPU.
ImportedTimeline imported_timeline(const Plan& plan, const ImportedRun& run);

// A plan of nothing but the imported ranks, each a pipeline rank of its own.
Plan plan_of_ranks(const ImportedRun& run);

// Of the plan's pipeline ranks, that of each imported rank.
std::vector<std::int32_t> pipeline_ranks_of(const Plan& plan, const ImportedRun& run);

}  // namespace simrun
