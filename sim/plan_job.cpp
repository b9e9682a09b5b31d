#include "sim/plan_job.h"

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "schedules/compile.h"
#include "schedules/evaluate_schedule.h"
#include "schedules/schedule_search.h"
#include "schedules/timeline.h"
#include "sim/activation_limit.h"
#include "sim/compiled_program.h"
#include "sim/durations.h"
#include "sim/held_memory.h"
#include "sim/memory.h"
#include "sim/pass_times.h"
#include "sim/recompute_search.h"
#include "sim/simulate.h"
#include "sim/step_clock.h"

namespace simrun {
namespace {

Job with_schedule(Job job, const std::string& name) {
  job.parallelism.pipeline_schedule = name;
  job.parallelism.pipeline_memory_limit = 0;
  return job;
}

constexpr double worth_a_try = 1.03;  // x the passes of the order that was found

bool has_one_stage(const Job& job) { return job.parallelism.virtual_pipeline_model_parallel_size == 1; }

// What the search needs to know: split and whole backwards differ, since the collectives of a whole one hide
// behind the products that a split one runs later.
PassFacts facts_for_search(const Job& job, const Plan& split) {
  const Plan whole = compile(with_schedule(job, has_one_stage(job) ? "gpipe" : "looped_bfs"));  // any sizes
  PassFacts facts{pass_times(split), activation_limit(split), activation_limit(whole)};
  const std::vector<PassTimes> whole_times = pass_times(whole);
  for (std::size_t stage = 0; stage < facts.times.size(); ++stage) {
    facts.times[stage].backward = whole_times[stage].backward;
    facts.times[stage].overlapped = whole_times[stage].overlapped;
  }
  return facts;
}

bool fits(const Plan& plan) {
  return std::all_of(plan.programs.begin(), plan.programs.end(), [&](const Program& program) {
    return walk_memory(plan, program, WhichStep::steady, MemoryDetail::peak).peak.bytes <=
           room_for_plan(plan, program);
  });
}

// A fixed order may be run with its transfers posted by simulated times or, as a plan of that name has them,
// by FLOPs.
Plan shorter_plan(const Job& named, const PassFacts& facts) {
  Plan plan = compile(named, {facts.times});
  if (uses_times(named)) return plan;
  Plan as_named = compile(named);
  return step_without_contention(as_named) < step_without_contention(plan) ? as_named : plan;
}

// The plan of a named schedule as what `auto` found; nothing if its passes take far longer than those of
// `found`, or it does not keep the limit (without one: does not fit).
std::optional<Plan> named_plan(const Job& job, const std::string& name, const PassFacts& facts,
                               const FoundSchedule& found) {
  Job named = with_schedule(job, name);
  const std::int64_t limit = job.parallelism.pipeline_memory_limit;
  if (uses_times(named)) named.parallelism.pipeline_memory_limit = limit > 0 ? limit : facts.memory_limit;
  try {
    const JobSchedule schedule = job_schedule(named, {facts.times});
    PipelineShape shape = schedule.shape;
    const ScheduleTimes times = evaluate(schedule.build(shape), shape);
    if (to_seconds(times.makespan) > worth_a_try * found.makespan_s) return std::nullopt;
    const int peak = *std::ranges::max_element(times.peak_in_flight_at_w);
    if (limit > 0 && peak > limit) return std::nullopt;
    Plan plan = shorter_plan(named, facts);
    if (limit == 0 && !fits(plan)) return std::nullopt;
    shape.memory_limit = peak;
    plan.job.schedule = job.parallelism.pipeline_schedule;
    const double bound = to_seconds(makespan_lower_bound(shape, schedule.placement()));
    plan.job.found_schedule = FoundSchedule{name, to_seconds(times.makespan),
                                            std::min(bound, found.lower_bound_s), limit > 0 ? limit : peak};
    return plan;
  } catch (const std::invalid_argument&) {
    return std::nullopt;  // not for these sizes
  }
}

// The search knows passes and transfers, and one limit for every rank. Named schedules that come near its
// order are simulated too: they may hold more on ranks with room, and whole steps have more in them.
Plan best_simulated(const Job& job, const PassFacts& facts, Plan found) {
  const FoundSchedule searched = *found.job.found_schedule;
  Plan best = std::move(found);
  Picoseconds step = step_without_contention(best);
  for (const ScheduleEntry& entry : pipeline_schedules()) {
    if (entry.placement == Placement::bidirectional) continue;  // two copies of every stage
    std::optional<Plan> named = named_plan(job, entry.name, facts, searched);
    if (!named) continue;
    const Picoseconds of_named = step_without_contention(*named);
    if (of_named >= step) continue;
    step = of_named;
    best = std::move(*named);
  }
  return best;
}

Plan plan_as_written(const Job& job) {
  Plan plan = with_step_clock(compile(job));
  if (!uses_times(job)) return plan;
  // The schedule is found for passes at that clock.
  Job clocked = job;
  clocked.cluster.gpu.kernels.sustained = plan.cluster.gpu.kernels.sustained;
  if (job.parallelism.pipeline_schedule != "auto") return compile(clocked, {pass_times(plan)});
  const PassFacts facts = facts_for_search(clocked, plan);
  return best_simulated(clocked, facts, compile(clocked, facts));
}

}  // namespace

Plan plan_job(const Job& job) {
  if (job.recompute.granularity == RecomputeGranularity::automatic)
    return plan_with_cheapest_recompute(job, plan_as_written);
  return plan_as_written(job);
}

// All routes are asked for where exchanges are priced.
void require_links(const Plan& plan) {
  if (!plan.cluster.imperfections.of_links()) return;
  Durations durations(plan);
  compile_programs(plan, WhichStep::steady, durations);
  compile_programs(plan, WhichStep::first, durations);
}

}  // namespace simrun
