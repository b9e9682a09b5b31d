#include "sim/plan_job.h"

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "schedules/compile.h"
#include "schedules/evaluate_schedule.h"
#include "schedules/schedule_search.h"
#include "sim/activation_limit.h"
#include "sim/memory.h"
#include "sim/pass_times.h"

namespace simrun {
namespace {

Job with_schedule(Job job, const char* name) {
  job.parallelism.pipeline_schedule = name;
  job.parallelism.pipeline_memory_limit = 0;
  return job;
}

bool has_one_stage(const Job& job) { return job.parallelism.virtual_pipeline_model_parallel_size == 1; }

// What the search needs to know: split and whole backwards differ, since the collectives of a whole one hide
// behind the products that a split one runs later.
PassFacts facts_for_search(const Job& job, const Plan& split) {
  const Plan whole = compile(with_schedule(job, has_one_stage(job) ? "gpipe" : "looped_bfs"));  // any sizes
  PassFacts facts{pass_times(split), activation_limit(split), activation_limit(whole)};
  const std::vector<PassTimes> whole_times = pass_times(whole);
  for (std::size_t stage = 0; stage < facts.times.size(); ++stage) {
    facts.times[stage].backward = whole_times[stage].backward;
    facts.times[stage].overlapped = facts.times[stage].forward + facts.times[stage].backward;
  }
  return facts;
}

bool fits(const Plan& plan) {
  const std::int64_t available = plan.cluster.gpu.memory_bytes - plan.cluster.reserved_bytes;
  return std::all_of(plan.programs.begin(), plan.programs.end(), [&](const Program& program) {
    return walk_memory(plan, program, WhichStep::steady, MemoryDetail::peak).peak.bytes <= available;
  });
}

// The plan of a named schedule as what `auto` found, if it beats `makespan_s` and fits.
std::optional<Plan> better_named(const Job& job, const char* name, const PassFacts& facts,
                                 double makespan_s) {
  const Job named = with_schedule(job, name);
  try {
    const JobSchedule schedule = job_schedule(named, {facts.times});
    PipelineShape shape = schedule.shape;
    const ScheduleTimes times = evaluate(schedule.build(shape), shape);
    const auto seconds = [](std::int64_t picoseconds) { return static_cast<double>(picoseconds) * 1e-12; };
    if (seconds(times.makespan) >= makespan_s) return std::nullopt;
    Plan plan = compile(named, {facts.times});
    if (!fits(plan)) return std::nullopt;
    shape.memory_limit = *std::ranges::max_element(times.peak_in_flight_at_w);
    plan.job.schedule = job.parallelism.pipeline_schedule;
    plan.job.found_schedule =
        FoundSchedule{name, seconds(times.makespan),
                      seconds(makespan_lower_bound(shape, schedule.placement())), shape.memory_limit};
    return plan;
  } catch (const std::invalid_argument&) {
    return std::nullopt;  // not for these sizes
  }
}

// A limit on activations is the same for every rank; where the ranks' bytes differ much, schedules that hold
// more on ranks with room fit, too.
Plan with_uneven_memory(const Job& job, const PassFacts& facts, Plan best) {
  if (job.parallelism.pipeline_memory_limit != 0 || facts.memory_limit == 0) return best;
  const std::vector<const char*> one_stage = {"1f1b", "zb_h1"};
  const std::vector<const char*> more = {"interleaved_1f1b", "interleaved_zb", "zb_v", "v_half"};
  for (const char* name : has_one_stage(job) ? one_stage : more)
    if (std::optional<Plan> named = better_named(job, name, facts, best.job.found_schedule->makespan_s))
      best = std::move(*named);
  return best;
}

}  // namespace

Plan plan_job(const Job& job) {
  Plan plan = compile(job);
  if (!uses_times(job)) return plan;
  if (job.parallelism.pipeline_schedule != "auto") return compile(job, {pass_times(plan)});
  const PassFacts facts = facts_for_search(job, plan);
  return with_uneven_memory(job, facts, compile(job, facts));
}

}  // namespace simrun
