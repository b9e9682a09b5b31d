#include "cli/plan_alpa.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <stdexcept>

#include "cli/console.h"
#include "cli/interrupt_note.h"
#include "cli/outputs.h"
#include "cli/plan_json.h"
#include "cli/plan_progress_line.h"
#include "cli/plan_refusals.h"
#include "cli/read_input.h"
#include "planner/alpa_outcome.h"
#include "planner/unsearched.h"
#include "schedules/plan_file.h"

namespace simrun {
namespace {

// On top of what --set says.
LoadedJob load_replaced(const Options& options, const LoadOptions& load,
                        const std::vector<Override>& replaced) {
  LoadOptions with = load;
  with.overrides.insert(with.overrides.end(), replaced.begin(), replaced.end());
  return load_job(options.input, with);
}

// Proposals and what stands beside them, the fastest that fit. A candidate is a pipeline size with a number
// of microbatches, a ZeRO stage, recompute and a schedule.
std::string alpa_json(const AlpaOutcome& outcome, double seconds,
                      const std::function<std::string(const SimulatedPlan&)>& config_of) {
  std::vector<FoundJob> found;
  for (std::size_t i = 0; i < outcome.simulated.size(); ++i)
    found.push_back({"", outcome.simulated[i], outcome.plans[i].estimate_s});
  for (const SimulatedPlan& reference : outcome.references) found.push_back({"", reference, {}});
  const auto candidates = static_cast<std::int64_t>(outcome.simulated.size());
  const auto evaluated = static_cast<std::int64_t>(found.size());
  std::erase_if(found,
                [](const FoundJob& job) { return !job.simulated.fits || !job.simulated.refusal.empty(); });
  std::ranges::stable_sort(found, {}, [](const FoundJob& job) { return job.simulated.step_s; });
  for (FoundJob& job : found) job.config = config_of(job.simulated);
  return found_json(
      {candidates, static_cast<std::int64_t>(found.size()), evaluated, seconds, outcome.was_stopped}, found);
}

[[noreturn]] void refuse_alpa(const Options& options, const std::string& why) {
  throw ConfigError({{{options.input, 0, 0}, why, ""}});
}

AlpaOutcome search(const Options& options, const LoadOptions& load, const LoadedJob& written) {
  LoadOptions again = load;
  again.parsed = parsed_files(written.files);
  try {
    const PlanProgressLine line(options);
    return plan_by_alpa(
        [&](const std::vector<Override>& replaced) { return load_replaced(options, again, replaced).job; },
        alpa_planning(written.plan), line.progress());
  } catch (const std::invalid_argument& error) {
    refuse_alpa(options, error.what());
  } catch (const std::length_error& error) {
    refuse_alpa(options, error.what());
  }
}

}  // namespace

int plan_alpa(const Options& options, const LoadOptions& load) {
  if (is_plan_file(options.input)) refuse_alpa(options, "--plan alpa splits a job, not a Plan file");
  if (options.plan_flags.resume) refuse_alpa(options, "--resume goes with --plan jobs, not with --plan alpa");
  const auto start = std::chrono::steady_clock::now();
  const std::string best_path = options.output.value_or("best.yaml");
  const LoadedJob written = load_replaced(options, load, {});
  refuse_unsearched(written, options.input, unsearched_by_alpa(written.job),
                    limits_unknown_to_alpa(written.plan));
  probe_outputs({best_path}, written.files);
  const AlpaOutcome outcome = search(options, load, written);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::string wrote;
  const std::optional<std::vector<Override>> best = best_overrides(outcome);
  if (best) wrote = write_reported(best_path, load_replaced(options, load, *best).effective_yaml);
  if (options.json)
    print(alpa_json(outcome, took.count(), [&](const SimulatedPlan& of) {
      return load_replaced(options, load, of.overrides).effective_yaml;
    }));
  else if (!options.quiet)
    print(alpa_text(outcome) + fmt::format("\n{:.1f} s\n", took.count()) + wrote);
  return plan_exit_code(best.has_value(), outcome.was_stopped);
}

}  // namespace simrun
