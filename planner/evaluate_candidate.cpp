#include "planner/evaluate_candidate.h"

#include <algorithm>
#include <new>
#include <stdexcept>
#include <utility>
#include <vector>

#include "configs/diagnostics.h"
#include "planner/candidate_config.h"
#include "schedules/summary.h"
#include "sim/plan_job.h"
#include "sim/worker.h"

namespace simrun {
namespace {

Evaluation simulated_candidate(const PlanBase& base, const Candidate& candidate, EngineChoice engine) {
  const Plan plan = plan_job(load_candidate(base, candidate));
  const Summary summary =
      summarize(plan, simulate(plan, {Detail::totals, engine, nullptr, engine != EngineChoice::fast}));
  Evaluation found;
  found.step_s = summary.step_time_s;
  found.tokens_per_s = summary.tokens_per_s;
  found.mfu = summary.mfu;
  found.bubble_fraction = summary.bubble_fraction;
  found.exposed_s = summary.exposed_comm_s;
  found.peak_bytes = summary.peak_memory_bytes;
  found.limit_bytes = summary.memory_limit_bytes;
  if (base.job.plan.max_memory > 0) found.limit_bytes = std::min(found.limit_bytes, base.job.plan.max_memory);
  found.fits = found.peak_bytes <= found.limit_bytes && summary.host_fits;
  found.engine = summary.engine;
  return found;
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
  return base;
}

Job load_candidate(const PlanBase& base, const Candidate& candidate) {
  ConfigNode root = with_candidate(base.root, base.job.job, candidate);
  return load_job_tree(root, {}, base.file, base.load).job;
}

Evaluation evaluate_candidate(const PlanBase& base, const Candidate& candidate, EngineChoice engine) {
  Evaluation refused;
  try {
    return simulated_candidate(base, candidate, engine);
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
