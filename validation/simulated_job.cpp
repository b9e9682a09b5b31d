#include "validation/simulated_job.h"

#include <new>
#include <stdexcept>

#include "configs/diagnostics.h"
#include "sim/plan_job.h"
#include "sim/worker.h"
#include "validation/layer_time.h"

namespace simrun {
namespace {

// Beside it lies no file, whatever the folder that the program runs in: presets are looked up in theirs only.
constexpr const char* text_name = "/dev/null/row.yaml";

void simulate_into(const std::string& yaml, const LoadOptions& load, EngineChoice engine,
                   SimulatedJob& into) {
  LoadedJob loaded = load_job_text(yaml, text_name, load);
  const Plan plan = plan_job(loaded.job);
  require_links(plan);
  const bool is_layer = loaded.job.model.num_layers == 1;
  // Nobody reads what shares links, nor how long the first step is.
  const Timeline timeline = simulate(plan, {.detail = is_layer ? Detail::instructions : Detail::totals,
                                            .engine = engine,
                                            .looks_for_contention = engine != EngineChoice::fast,
                                            .times_first_step = false});
  into.summary = summarize(plan, timeline);
  if (is_layer) into.layer_s = seconds_of_layer(plan, timeline);
  into.job = std::move(loaded.job);
}

}  // namespace

SimulatedJob simulate_job(const std::string& yaml, const LoadOptions& load, EngineChoice engine) {
  SimulatedJob made;
  try {
    simulate_into(yaml, load, engine, made);
  } catch (const ConfigError& error) {
    made.error = error.diagnostics().empty() ? error.what() : error.diagnostics().front().message;
  } catch (const std::bad_alloc&) {
    made.error = "out of memory";
  } catch (const std::exception& error) {
    made.error = error.what();
  }
  return made;
}

}  // namespace simrun
