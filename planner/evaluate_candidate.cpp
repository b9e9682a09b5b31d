#include "planner/evaluate_candidate.h"

#include <new>
#include <stdexcept>
#include <utility>

#include "configs/diagnostics.h"
#include "planner/candidate_config.h"
#include "planner/plan_memory.h"
#include "planner/shorter_steps.h"
#include "schedules/summary.h"
#include "sim/plan_job.h"
#include "sim/worker.h"

namespace simrun {
namespace {

Evaluation evaluated_plan(const PlanBase& base, const Plan& plan, const SimulateOptions& options) {
  return evaluation_of(base, plan, simulate(plan, options));
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
    if (const auto shared = contention_of_shorter_steps(base, job, *known)) return *shared;
  const Plan plan = plan_job(job);
  if (engine == EngineChoice::fast)
    return evaluated_plan(base, plan, {.looks_for_contention = false, .times_first_step = false});
  if (is_shortened && known == nullptr) {
    const Evaluation alone =
        evaluated_plan(base, plan, {.looks_for_contention = false, .times_first_step = false});
    if (const auto shared = contention_of_shorter_steps(base, job, alone)) return *shared;
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

Evaluation evaluation_of(const PlanBase& base, const Plan& plan, const Timeline& timeline) {
  const Summary summary = summarize(plan, timeline);
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
  found.host_excess_bytes = memory.host_excess_bytes;
  found.engine = summary.engine;
  return found;
}

Job load_candidate(const PlanBase& base, const Candidate& candidate) {
  ConfigNode root = with_candidate(base.root, base.job.job, candidate);
  return load_job_tree(root, {}, base.file, base.load).job;
}

std::optional<Job> accepted_job(const PlanBase& base, const Candidate& candidate) {
  try {
    return load_candidate(base, candidate);
  } catch (const ConfigError&) {
    return std::nullopt;
  }
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
