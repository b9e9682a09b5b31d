#include "cli/plan_alpa.h"

#include <fmt/format.h>

#include <chrono>
#include <stdexcept>

#include "cli/console.h"
#include "cli/outputs.h"
#include "cli/read_input.h"
#include "planner/alpa_outcome.h"
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

[[noreturn]] void refuse_alpa(const Options& options, const std::string& why) {
  throw ConfigError({{{options.input, 0, 0}, why, ""}});
}

}  // namespace

int plan_alpa(const Options& options, const LoadOptions& load) {
  if (is_plan_file(options.input)) refuse_alpa(options, "--plan alpa splits a job, not a Plan file");
  if (options.json) refuse_alpa(options, "--plan alpa has no --json; --plan jobs has");
  if (options.plan_flags.resume) refuse_alpa(options, "--resume goes with --plan jobs, not with --plan alpa");
  const auto start = std::chrono::steady_clock::now();
  const std::string best_path = options.output.value_or("best.yaml");
  probe_outputs({best_path}, load_replaced(options, load, {}).files);
  AlpaOutcome outcome;
  try {
    outcome = plan_by_alpa(
        [&](const std::vector<Override>& replaced) { return load_replaced(options, load, replaced).job; });
  } catch (const std::invalid_argument& error) {
    refuse_alpa(options, error.what());
  } catch (const std::length_error& error) {
    refuse_alpa(options, error.what());
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::string wrote;
  const std::optional<std::vector<Override>> best = best_overrides(outcome);
  if (best) wrote = write_reported(best_path, load_replaced(options, load, *best).effective_yaml);
  if (!options.quiet) print(alpa_text(outcome) + fmt::format("\n{:.1f} s\n", took.count()) + wrote);
  return best ? 0 : 3;
}

}  // namespace simrun
