#include "sim/plan_job.h"

#include "schedules/compile.h"
#include "schedules/job_schedule.h"
#include "sim/activation_limit.h"
#include "sim/pass_times.h"

namespace simrun {
namespace {

// The job with backward passes that are not split: their collectives hide behind the products that a split
// backward runs later.
Plan whole_backwards(Job job) {
  const bool one_stage = job.parallelism.virtual_pipeline_model_parallel_size == 1;
  job.parallelism.pipeline_schedule = one_stage ? "gpipe" : "looped_bfs";  // take any sizes
  job.parallelism.pipeline_memory_limit = 0;
  return compile(job);
}

}  // namespace

Plan plan_job(const Job& job) {
  Plan plan = compile(job);
  if (!uses_times(job)) return plan;
  PassFacts facts{pass_times(plan)};
  if (job.parallelism.pipeline_schedule == "auto") {
    const Plan whole = whole_backwards(job);
    const std::vector<PassTimes> whole_times = pass_times(whole);
    for (std::size_t stage = 0; stage < facts.times.size(); ++stage) {
      facts.times[stage].backward = whole_times[stage].backward;
      facts.times[stage].overlapped = facts.times[stage].forward + facts.times[stage].backward;
    }
    facts.memory_limit = activation_limit(plan);
    facts.whole_memory_limit = activation_limit(whole);
  }
  return compile(job, facts);
}

}  // namespace simrun
