#include "planner/simulated_plan.h"

#include <stdexcept>
#include <utility>

#include "configs/diagnostics.h"
#include "schedules/compile.h"
#include "schedules/summary.h"
#include "sim/plan_job.h"
#include "sim/simulate.h"
#include "sim/worker.h"

namespace simrun {

SimulatedPlan simulate_plan(std::string name, std::vector<Override> overrides, const JobLoader& load,
                            const PlanSimulation& how) {
  SimulatedPlan simulated;
  simulated.name = std::move(name);
  simulated.overrides = std::move(overrides);
  try {
    const Plan plan = plan_job(load(simulated.overrides));
    const Summary summary = summarize(plan, simulate(plan, {Detail::totals, how.engine}));
    simulated.shares_links = summary.engine == "simgrid";
    simulated.step_s = summary.step_time_s;
    simulated.peak_bytes = summary.peak_memory_bytes;
    simulated.limit_bytes = summary.memory_limit_bytes;
    simulated.gpu = summary.peak_gpu;
    simulated.fits = summary.fits;
    if (how.max_memory > 0 && how.max_memory < simulated.limit_bytes) {
      simulated.limit_bytes = how.max_memory;
      simulated.fits = simulated.fits && simulated.peak_bytes <= how.max_memory;
    }
  } catch (const ConfigError& error) {
    simulated.refusal = error.diagnostics().empty() ? error.what() : error.diagnostics().front().message;
  } catch (const std::invalid_argument& error) {
    simulated.refusal = error.what();
  } catch (const std::range_error& error) {
    simulated.refusal = error.what();
  } catch (const WorkerError& error) {
    simulated.refusal = error.what();
  }
  return simulated;
}

bool is_better(const SimulatedPlan& a, const SimulatedPlan& b) {
  if (!a.refusal.empty() || !b.refusal.empty()) return a.refusal.empty() && !b.refusal.empty();
  if (a.fits != b.fits) return a.fits;
  return a.step_s < b.step_s;
}

}  // namespace simrun
