#include "planner/evaluate_candidate.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "configs/diagnostics.h"
#include "planner/candidate_config.h"
#include "planner/plan_memory.h"
#include "schedules/job_schedule.h"
#include "schedules/summary.h"
#include "sim/contention.h"
#include "sim/plan_job.h"
#include "sim/worker.h"

namespace simrun {
namespace {

Evaluation evaluation_of(const PlanBase& base, const Summary& summary) {
  Evaluation found;
  found.step_s = summary.step_time_s;
  found.tokens_per_s = summary.tokens_per_s;
  found.mfu = summary.mfu;
  found.bubble_fraction = summary.bubble_fraction;
  found.exposed_s = summary.exposed_comm_s;
  const PlanMemory memory = plan_memory(summary, base.job.plan.max_memory);
  found.peak_bytes = memory.peak_bytes;
  found.limit_bytes = memory.limit_bytes;
  found.fits = memory.fits;
  found.engine = summary.engine;
  return found;
}

Evaluation evaluated_plan(const PlanBase& base, const Plan& plan, const SimulateOptions& options) {
  return evaluation_of(base, summarize(plan, simulate(plan, options)));
}

// What shared links add to a step; seconds.
struct ContentionCost {
  double step = 0, bubble = 0, exposed = 0;
};

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
  of.alone = evaluation_of(base, summarize(of.plan, timeline));
  of.excess_s = of.alone.step_s * excess_of_bound(timeline.contention_bound);
  return of;
}

ContentionCost added_to(const PlanBase& base, const ShorterStep& of) {
  const Evaluation shared =
      evaluated_plan(base, of.plan, {.engine = EngineChoice::simgrid, .times_first_step = false});
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

// Periods of the two shorter steps, and those from which on a step is worth two others.
constexpr std::int64_t short_periods = 2, long_periods = 3, worth_it = 6;

bool is_long_and_periodic(const Job& job) {
  return job.microbatches() >= worth_it * period_of(job) && !uses_times(job) && !job.parallelism.schedule_csv;
}

// From two shorter steps: in between, every microbatch adds the same. `alone` where links are hardly shared.
// Nothing where the fast engine's step does not grow so. Throws what plan_job() throws of the shorter steps.
std::optional<Evaluation> with_contention_of_shorter(const PlanBase& base, const Job& job,
                                                     const Evaluation& alone) {
  constexpr double periodic = 1e-4;
  const std::int64_t period = period_of(job);
  const ShorterStep first = shorter_step(base, job, short_periods * period);
  const ShorterStep second = shorter_step(base, job, long_periods * period);
  const double beyond =
      static_cast<double>(job.microbatches() - long_periods * period) / static_cast<double>(period);
  const auto reached = [&](double at_first, double at_second) {
    return at_second + beyond * (at_second - at_first);
  };
  if (std::abs(reached(first.alone.step_s, second.alone.step_s) / alone.step_s - 1) > periodic)
    return std::nullopt;
  // The worst of several links may be another one in the whole step, and worth a little more.
  constexpr double margin = 1.25;
  const double excess = std::max(reached(first.excess_s, second.excess_s), second.excess_s) / alone.step_s;
  if (margin * bound_of_excess(excess) <= tolerated_contention) return alone;
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

// Nothing, too, where the schedule cannot be that of a shorter step.
std::optional<Evaluation> with_contention_if_shortened(const PlanBase& base, const Job& job,
                                                       const Evaluation& alone) {
  try {
    return with_contention_of_shorter(base, job, alone);
  } catch (const std::invalid_argument&) {
    return std::nullopt;
  }
}

// As simulate() chooses its engine, but that not all microbatches need to be run for it.
Evaluation simulated_candidate(const PlanBase& base, const Candidate& candidate, EngineChoice engine,
                               const Evaluation* known) {
  Job job = load_candidate(base, candidate);
  // Other jobs run beside this one in SimGrid alone.
  if (engine == EngineChoice::fast) job.cluster.imperfections.other_jobs.clear();
  const bool is_shortened = engine == EngineChoice::automatic &&
                            job.cluster.imperfections.other_jobs.empty() && is_long_and_periodic(job);
  if (is_shortened && known != nullptr)
    if (const auto shared = with_contention_if_shortened(base, job, *known)) return *shared;
  const Plan plan = plan_job(job);
  if (engine == EngineChoice::fast)
    return evaluated_plan(base, plan, {.looks_for_contention = false, .times_first_step = false});
  if (is_shortened && known == nullptr) {
    const Evaluation alone =
        evaluated_plan(base, plan, {.looks_for_contention = false, .times_first_step = false});
    if (const auto shared = with_contention_if_shortened(base, job, alone)) return *shared;
  }
  return evaluated_plan(base, plan, {.engine = engine, .times_first_step = false});
}

}  // namespace

PlanBase plan_base(const std::string& text, const std::string& file, const LoadOptions& load) {
  PlanBase base;
  base.file = file;
  base.load = load;
  base.load.overrides.clear();
  std::vector<Diagnostic> problems;
  base.root = read_yaml(text, file, problems);
  // Adds the overrides to the tree.
  base.job = load_job_tree(base.root, std::move(problems), file, load);
  base.load.parsed = parsed_files(base.job.files);
  return base;
}

Job load_candidate(const PlanBase& base, const Candidate& candidate) {
  ConfigNode root = with_candidate(base.root, base.job.job, candidate);
  return load_job_tree(root, {}, base.file, base.load).job;
}

Evaluation evaluate_candidate(const PlanBase& base, const Candidate& candidate, EngineChoice engine,
                              const Evaluation* alone) {
  Evaluation refused;
  try {
    return simulated_candidate(base, candidate, engine, alone);
  } catch (const ConfigError& error) {
    refused.refusal = error.diagnostics().empty() ? error.what() : error.diagnostics().front().message;
  } catch (const std::invalid_argument& error) {
    refused.refusal = error.what();
  } catch (const std::range_error& error) {
    refused.refusal = error.what();
  } catch (const WorkerError& error) {
    refused.refusal = error.what();
  } catch (const std::bad_alloc&) {
    refused.refusal = "out of memory";
  }
  return refused;
}

}  // namespace simrun
