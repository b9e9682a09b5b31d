#include "cli/plan_whale.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <stdexcept>
#include <vector>

#include "cli/console.h"
#include "cli/outputs.h"
#include "cli/plan_json.h"
#include "cli/plan_refusals.h"
#include "cli/read_input.h"
#include "configs/node_groups.h"
#include "planner/balanced_plans.h"
#include "planner/unsearched.h"
#include "schedules/plan_file.h"
#include "visualizer/quantity.h"
#include "visualizer/text_table.h"

namespace simrun {
namespace {

LoadedJob load_balanced(const Options& options, const LoadOptions& load,
                        const std::vector<Override>& replaced) {
  LoadOptions with = load;
  with.overrides.insert(with.overrides.end(), replaced.begin(), replaced.end());
  return load_job(options.input, with);
}

[[noreturn]] void refuse_whale(const Options& options, const std::string& why) {
  throw ConfigError({{{options.input, 0, 0}, why, ""}});
}

// Of those that fit.
std::optional<std::size_t> fastest_of(const std::vector<BalancedPlan>& plans) {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const SimulatedPlan& plan = plans[i].simulated;
    if (!plan.refusal.empty() || !plan.fits) continue;
    if (!best || is_better(plan, plans[*best].simulated)) best = i;
  }
  return best;
}

// What comes nearest where none fits.
std::string nothing_fits(const std::vector<BalancedPlan>& plans) {
  std::vector<const SimulatedPlan*> all;
  all.reserve(plans.size());
  for (const BalancedPlan& of : plans) all.push_back(&of.simulated);
  const std::string nearest = nearest_text(all);
  if (nearest.empty()) return "no balance of the job can be run\n";
  return fmt::format("nothing fits; {}\n--plan searches over other splits as well\n", nearest);
}

std::string balanced_text(const std::vector<BalancedPlan>& plans, const Cluster& cluster) {
  const SimulatedPlan& written = plans.front().simulated;
  std::vector<TextRow> rows{{"step", "gain", "peak", "plan"}};
  std::string refusals;
  for (const BalancedPlan& of : plans) {
    const SimulatedPlan& plan = of.simulated;
    if (!plan.refusal.empty()) {
      refusals += fmt::format("refused: {}: {}\n", plan.name, plan.refusal);
      continue;
    }
    const std::string gain = written.refusal.empty() && plan.step_s > 0
                                 ? fmt::format("{:.2f} x", written.step_s / plan.step_s)
                                 : "";
    rows.push_back({seconds_text(plan.step_s), gain, memory_text(plan.peak_bytes),
                    plan.name + (plan.fits ? "" : "  (does not fit)")});
  }
  return gpus_text(cluster) + "\n" + text_table(rows, {3}) + refusals;
}

// Those that fit, the fastest first. A candidate is a balance, or the job as it is written.
std::string balanced_json(const std::vector<BalancedPlan>& plans, double seconds,
                          const std::function<std::string(const BalancedPlan&)>& config_of) {
  std::vector<const BalancedPlan*> fitting;
  for (const BalancedPlan& of : plans)
    if (of.simulated.fits && of.simulated.refusal.empty()) fitting.push_back(&of);
  std::ranges::stable_sort(fitting, is_better, [](const BalancedPlan* of) { return of->simulated; });
  std::vector<FoundJob> found;
  found.reserve(fitting.size());
  for (const BalancedPlan* of : fitting) found.push_back({config_of(*of), of->simulated, {}});
  const auto refused =
      std::ranges::count_if(plans, [](const BalancedPlan& of) { return !of.simulated.refusal.empty(); });
  const auto candidates = static_cast<std::int64_t>(plans.size());
  return found_json(
      {candidates, static_cast<std::int64_t>(fitting.size()), candidates - refused, seconds, false}, found);
}

}  // namespace

int plan_whale(const Options& options, const LoadOptions& load) {
  if (is_plan_file(options.input)) refuse_whale(options, "--plan whale balances a job, not a Plan file");
  if (options.plan_flags.resume)
    refuse_whale(options, "--resume goes with --plan jobs, not with --plan whale");
  const auto start = std::chrono::steady_clock::now();
  const std::string best_path = options.output.value_or("best.yaml");
  const LoadedJob written = load_balanced(options, load, {});
  refuse_unsearched(written, options.input, unsearched_by_whale(written.job),
                    limits_unknown_to_whale(written.plan));
  probe_outputs({best_path}, written.files);
  const Cluster& cluster = written.job.cluster;
  std::vector<BalancedPlan> plans;
  try {
    plans = balanced_plans(
        [&](const std::vector<Override>& replaced) { return load_balanced(options, load, replaced).job; },
        written.plan.max_memory);
  } catch (const std::invalid_argument& error) {
    refuse_whale(options, error.what());
  }
  const std::optional<std::size_t> best = fastest_of(plans);
  const auto config_of = [&](const BalancedPlan& of) {
    return load_balanced(options, load, overrides_of(of.balance)).effective_yaml;
  };
  std::string wrote;
  if (best) wrote = write_reported(best_path, config_of(plans[*best]));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  if (options.json)
    print(balanced_json(plans, took.count(), config_of));
  else if (!options.quiet)
    print(balanced_text(plans, cluster) + (best ? "" : nothing_fits(plans)) +
          fmt::format("{:.1f} s\n", took.count()) + wrote);
  return best ? 0 : 3;
}

}  // namespace simrun
