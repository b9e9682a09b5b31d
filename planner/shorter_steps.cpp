#include "planner/shorter_steps.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "schedules/job_schedule.h"
#include "sim/contention.h"
#include "sim/plan_job.h"

namespace simrun {
namespace {

// A step of fewer microbatches, where each transfer has its links for itself.
struct ShorterStep {
  Plan plan;
  Evaluation alone;
  double excess_s = 0;  // of which Timeline::contention_bound is the bound
};

ShorterStep shorter_step(const PlanBase& base, Job job, std::int64_t microbatches) {
  job.training.global_batch_size =
      microbatches * job.parallelism.data_parallel_size * job.training.micro_batch_size;
  ShorterStep of{plan_job(job), {}, 0};
  const Timeline timeline = simulate(of.plan, {.times_first_step = false});
  of.alone = evaluation_of(base, of.plan, timeline);
  of.excess_s = of.alone.step_s * excess_of_bound(timeline.contention_bound);
  return of;
}

// What shared links add to a step; seconds.
struct ContentionCost {
  double step = 0, bubble = 0, exposed = 0;
};

ContentionCost added_to(const PlanBase& base, const ShorterStep& of) {
  const Evaluation shared = evaluation_of(
      base, of.plan, simulate(of.plan, {.engine = EngineChoice::simgrid, .times_first_step = false}));
  return {shared.step_s - of.alone.step_s,
          shared.bubble_fraction * shared.step_s - of.alone.bubble_fraction * of.alone.step_s,
          shared.exposed_s - of.alone.exposed_s};
}

// Microbatches after which the schedule of a long step repeats: of whole groups.
std::int64_t period_of(const Job& job) {
  constexpr std::int64_t least = 4, one = 1;
  const std::int64_t ranks = job.parallelism.pipeline_model_parallel_size;
  const std::int64_t stated = std::max(job.parallelism.microbatch_group_size_per_vp_stage, one);
  const std::int64_t group = std::max(std::lcm(ranks, stated), one);
  return (least + group - 1) / group * group;
}

// Periods of the shorter of two steps, tried in turn; the longer has one more. In some schedules (ZB-V) ranks
// wait for one another longer until passes repeat.
constexpr std::array<std::int64_t, 2> short_periods = {2, 4};
// Times the longer one's microbatches, from which on a step is worth the two.
constexpr std::int64_t worth_it = 6;

bool is_worth_shortening(const Job& job, std::int64_t periods) {
  return job.microbatches() >= worth_it * (periods + 1) * period_of(job);
}

// From a step of so many periods and one of one more.
std::optional<Evaluation> contention_of(const PlanBase& base, const Job& job, const Evaluation& alone,
                                        std::int64_t periods) {
  constexpr double periodic = 1e-4;
  const std::int64_t period = period_of(job), most = (periods + 1) * period;
  const ShorterStep first = shorter_step(base, job, periods * period);
  const ShorterStep second = shorter_step(base, job, most);
  const double beyond = static_cast<double>(job.microbatches() - most) / static_cast<double>(period);
  const auto reached = [&](double at_first, double at_second) {
    return at_second + beyond * (at_second - at_first);
  };
  if (std::abs(reached(first.alone.step_s, second.alone.step_s) / alone.step_s - 1) > periodic)
    return std::nullopt;
  // The worst of several links may be another one in the whole step, and worth a little more.
  constexpr double worth_more = 1.25;
  const double excess = std::max(reached(first.excess_s, second.excess_s), second.excess_s) / alone.step_s;
  if (worth_more * bound_of_excess(excess) <= tolerated_contention) return alone;
  const ContentionCost by_first = added_to(base, first), by_second = added_to(base, second);
  Evaluation shared = alone;
  shared.step_s += reached(by_first.step, by_second.step);
  shared.exposed_s += reached(by_first.exposed, by_second.exposed);
  const double bubble = alone.bubble_fraction * alone.step_s + reached(by_first.bubble, by_second.bubble);
  shared.bubble_fraction = bubble / shared.step_s;
  shared.tokens_per_s *= alone.step_s / shared.step_s;
  shared.mfu *= alone.step_s / shared.step_s;
  shared.engine = "simgrid";
  return shared;
}

}  // namespace

bool is_long_and_periodic(const Job& job) {
  return is_worth_shortening(job, short_periods.front()) && !uses_times(job) && !job.parallelism.schedule_csv;
}

std::optional<Evaluation> contention_of_shorter_steps(const PlanBase& base, const Job& job,
                                                      const Evaluation& alone) {
  try {
    for (const std::int64_t periods : short_periods)
      if (is_worth_shortening(job, periods))
        if (const auto shared = contention_of(base, job, alone, periods)) return shared;
  } catch (const std::invalid_argument&) {
    return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace simrun
