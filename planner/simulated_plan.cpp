#include "planner/simulated_plan.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "configs/diagnostics.h"
#include "planner/plan_memory.h"
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
    PlanMemory memory = plan_memory(summary, how.max_memory);
    simulated.peak_bytes = memory.peak_bytes;
    simulated.limit_bytes = memory.limit_bytes;
    simulated.gpu = std::move(memory.gpu);
    simulated.fits = memory.fits;
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

std::string nearest_text(const std::vector<const SimulatedPlan*>& plans) {
  const auto lacks = [](const SimulatedPlan& of) { return of.peak_bytes - of.limit_bytes; };
  const SimulatedPlan* nearest = nullptr;
  bool lacks_host = false;
  for (const SimulatedPlan* of : plans) {
    if (!of->refusal.empty() || of->fits) continue;
    lacks_host = lacks_host || lacks(*of) <= 0;
    if (lacks(*of) > 0 && (nearest == nullptr || lacks(*of) < lacks(*nearest))) nearest = of;
  }
  if (nearest == nullptr) return lacks_host ? "what is offloaded lacks the memory or drives of a node" : "";
  const bool is_small = nearest->limit_bytes < std::int64_t{1} << 30;
  const double unit = is_small ? 0x1p20 : 0x1p30;
  return fmt::format("the nearest needs {:.1f} of {:.1f} {} ({}): {}",
                     static_cast<double>(nearest->peak_bytes) / unit,
                     static_cast<double>(nearest->limit_bytes) / unit, is_small ? "MiB" : "GiB", nearest->gpu,
                     nearest->name);
}

bool is_better(const SimulatedPlan& a, const SimulatedPlan& b) {
  if (!a.refusal.empty() || !b.refusal.empty()) return a.refusal.empty() && !b.refusal.empty();
  if (a.fits != b.fits) return a.fits;
  return a.step_s < b.step_s;
}

}  // namespace simrun
