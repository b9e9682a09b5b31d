#include "cli/plan_jobs.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "cli/console.h"
#include "cli/interrupt_note.h"
#include "cli/outputs.h"
#include "cli/plan_report.h"
#include "cli/plan_state.h"
#include "cli/read_input.h"
#include "configs/text_file.h"
#include "planner/search.h"
#include "schedules/plan_file.h"

namespace simrun {
namespace {

PlanBase read_base(const Options& options, const LoadOptions& load) {
  const TextFile file = read_text_file(options.input);
  if (!file.text) throw ConfigError({{{options.input, 0, 0}, "cannot read this file: " + file.reason, ""}});
  return plan_base(*file.text, options.input, load);
}

// A line on the terminal that is written over.
void show(const PlanSearchProgress& progress) {
  const char* what = progress.phase == PlanSearchPhase::estimating   ? "estimating every candidate"
                     : progress.phase == PlanSearchPhase::simulating ? "simulating the most promising"
                                                                     : "simulating the best with contention";
  complain(progress.all == 0 ? fmt::format("\r\033[Kplan: {} ...", what)
                             : fmt::format("\r\033[Kplan: {} {}/{}", what, progress.done, progress.all));
}

[[noreturn]] void refuse_search(const Options& options, const std::string& why) {
  throw ConfigError({{{options.input, 0, 0}, why, ""}});
}

}  // namespace

int plan_jobs(const Options& options, const LoadOptions& load) {
  if (is_plan_file(options.input)) refuse_search(options, "--plan splits a job, not a Plan file");
  const auto start = std::chrono::steady_clock::now();
  const PlanBase base = read_base(options, load);
  const std::string best_path = options.output.value_or("best.yaml");
  const std::string state_path = best_path + ".searched";
  probe_outputs({best_path, state_path}, base.job.files);

  PlanSearchOptions search;
  if (options.plan_flags.resume) search.known = read_plan_state(state_path, base);
  const bool shows = !options.quiet && isatty(STDERR_FILENO) == 1;
  const InterruptNote note;
  search.progress = [&](const PlanSearchProgress& progress) {
    if (shows) show(progress);
    return !note.was_interrupted();
  };
  PlanSearchResult result;
  try {
    result = search_jobs(base, search);
  } catch (const std::invalid_argument& error) {
    if (shows) complain("\r\033[K");
    refuse_search(options, error.what());
  }
  if (shows) complain("\r\033[K");
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;

  std::string wrote;
  if (result.was_stopped || options.plan_flags.resume)
    wrote += write_reported(state_path, plan_state(base, result, search.known));
  if (!result.best.empty()) wrote += write_reported(best_path, plan_yaml(base, result.best.front()));
  if (options.json)
    print(plan_json(base, result, took.count()));
  else if (!options.quiet)
    print(plan_text(base, result) + fmt::format("\n{:.1f} s\n", took.count()) + wrote);
  return result.best.empty() ? 3 : 0;
}

}  // namespace simrun
