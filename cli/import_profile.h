#pragma once

#include <string>
#include <vector>

#include "configs/load_job.h"
#include "schedules/plan.h"
#include "schedules/timeline.h"
#include "traces/imported_run.h"

namespace simrun {

struct ImportedBeside {
  const Plan& plan;
  const Timeline& predicted;  // of the plan, with lanes
  const ImportedRun& run;
};

// A device profile for `gpu: FILE`: the keys of the job's GPU, and under `measured` rates that make each kind
// of kernel take in this job what it took in the trace. A trace names kernels, no sizes: all sizes and
// functions of a kind are slower than predicted, or faster, by the same factor. Kinds that the trace lacks,
// or configs/measured_config.h has no name for, are left out and keep their prediction. Throws ConfigError
// where the trace plainly is of another job: it has no kernel of any kind that the job has, or its matrix
// products would run above the datasheet's peak, or below 1 % of it and ten times slower than predicted.
struct Profile {
  std::string yaml;
  std::vector<std::string> unrated;  // kinds that were measured, but not in full that rates can say
  std::vector<std::string> missing;  // kinds of the job that the trace has nothing of
};
Profile gpu_profile(const LoadedJob& job, const ImportedBeside& beside);

}  // namespace simrun
