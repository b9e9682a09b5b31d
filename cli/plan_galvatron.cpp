#include "cli/plan_galvatron.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>

#include "cli/console.h"
#include "cli/interrupt_note.h"
#include "cli/outputs.h"
#include "cli/plan_json.h"
#include "cli/plan_progress_line.h"
#include "cli/plan_refusals.h"
#include "cli/read_input.h"
#include "planner/galvatron_outcome.h"
#include "planner/unsearched.h"
#include "schedules/plan_file.h"

namespace simrun {
namespace {

constexpr std::size_t most_listed = 10;

class GalvatronCommand {
 public:
  GalvatronCommand(const Options& options, const LoadOptions& load) : options_(options), load_(load) {}

  int run() {
    if (is_plan_file(options_.input)) refuse("--plan galvatron splits a job, not a Plan file");
    if (options_.plan_flags.resume) refuse("--resume goes with --plan jobs, not with --plan galvatron");
    const auto start = std::chrono::steady_clock::now();
    const std::string best_path = options_.output.value_or("best.yaml");
    const LoadedJob job = loaded({});
    refuse_unsearched(job, options_.input, unsearched_by_galvatron(job.job),
                      limits_unknown_to_galvatron(job.plan));
    probe_outputs({best_path}, job.files);
    const GalvatronOutcome outcome = search(job.plan);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    std::string wrote;
    if (outcome.best) wrote = write_reported(best_path, config_of(outcome.plans[*outcome.best]));
    if (options_.json)
      print(json(outcome, took.count()));
    else if (!options_.quiet)
      print(galvatron_text(outcome) +
            fmt::format("\n{:.1f} s{}\n", took.count(),
                        outcome.was_stopped ? " (stopped: the best so far)" : "") +
            wrote);
    return plan_exit_code(outcome.best.has_value(), outcome.was_stopped);
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw ConfigError({{{options_.input, 0, 0}, why, ""}});
  }

  // On top of what --set says.
  LoadedJob loaded(const std::vector<Override>& replaced) const {
    LoadOptions with = load_;
    with.overrides.insert(with.overrides.end(), replaced.begin(), replaced.end());
    return load_job(options_.input, with);
  }

  GalvatronOutcome search(const PlanConfig& plan) const {
    try {
      const PlanProgressLine line(options_);
      return plan_by_galvatron([&](const std::vector<Override>& replaced) { return loaded(replaced).job; },
                               {.max_memory = plan.max_memory}, line.progress());
    } catch (const std::invalid_argument& error) {
      refuse(error.what());
    }
  }

  std::string config_of(const SimulatedLayers& found) const {
    return loaded(found.simulated.overrides).effective_yaml;
  }

  // The fastest that fit.
  std::string json(const GalvatronOutcome& outcome, double seconds) const {
    std::vector<const SimulatedLayers*> fitting;
    for (const SimulatedLayers& of : outcome.plans)
      if (of.simulated.fits && of.simulated.refusal.empty()) fitting.push_back(&of);
    std::ranges::stable_sort(fitting, {}, [](const SimulatedLayers* of) { return of->simulated.step_s; });
    const std::size_t listed = std::min(fitting.size(), most_listed);
    std::vector<FoundJob> best;
    for (std::size_t i = 0; i < listed; ++i)
      best.push_back({config_of(*fitting[i]), fitting[i]->simulated, fitting[i]->plan.estimate_s});
    return found_json({outcome.points, outcome.feasible, static_cast<std::int64_t>(outcome.plans.size()),
                       seconds, outcome.was_stopped},
                      best);
  }

  const Options& options_;
  const LoadOptions& load_;
};

}  // namespace

int plan_galvatron(const Options& options, const LoadOptions& load) {
  return GalvatronCommand(options, load).run();
}

}  // namespace simrun
