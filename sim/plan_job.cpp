#include "sim/plan_job.h"

#include "schedules/compile.h"
#include "schedules/job_schedule.h"
#include "sim/activation_limit.h"
#include "sim/pass_times.h"

namespace simrun {
namespace {

// Of a backward that is not split: its collectives hide behind the products that a split one runs later.
void add_whole_backwards(Job job, std::vector<PassTimes>& times) {
  job.parallelism.pipeline_schedule =
      job.parallelism.virtual_pipeline_model_parallel_size == 1 ? "gpipe" : "looped_bfs";
  job.parallelism.pipeline_memory_limit = 0;
  const std::vector<PassTimes> whole = pass_times(compile(job));
  for (std::size_t stage = 0; stage < times.size(); ++stage) {
    times[stage].backward = whole[stage].backward;
    times[stage].overlapped = times[stage].forward + times[stage].backward;
  }
}

}  // namespace

Plan plan_job(const Job& job) {
  Plan plan = compile(job);
  if (!uses_times(job)) return plan;
  std::vector<PassTimes> times = pass_times(plan);
  Job limited = job;
  if (job.parallelism.pipeline_schedule == "auto") {
    add_whole_backwards(job, times);
    if (job.parallelism.pipeline_memory_limit == 0)
      limited.parallelism.pipeline_memory_limit = activation_limit(plan);
  }
  return compile(limited, times);
}

}  // namespace simrun
