#include "cli/plan_jobs.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <sstream>
#include <utility>

#include "cli/console.h"
#include "cli/interrupt_note.h"
#include "cli/likely_time.h"
#include "cli/outputs.h"
#include "cli/plan_processes.h"
#include "cli/plan_report.h"
#include "cli/plan_state.h"
#include "cli/read_input.h"
#include "configs/text_file.h"
#include "planner/evaluate_candidate.h"
#include "planner/nearest_that_fits.h"
#include "planner/search.h"
#include "planner/searched_lines.h"
#include "planner/starting_split.h"
#include "schedules/plan_file.h"
#include "sim/plan_job.h"
#include "visualizer/likely_text.h"

namespace simrun {
namespace {

// A job's file, and the options that it is loaded with.
struct PlannedJob {
  std::string text, file;
  LoadOptions written;  // as the command line says

  // With what the file leaves open of the split. Throws ConfigError.
  PlanBase base(std::vector<Override> changes = {}) const {
    LoadOptions load = written;
    load.overrides.insert(load.overrides.end(), changes.begin(), changes.end());
    return plan_base(text, file, with_starting_split(text, file, load, WrittenSizes::give_way));
  }
};

PlannedJob read_job(const Options& options, const LoadOptions& load) {
  TextFile file = read_text_file(options.input);
  if (!file.text) throw ConfigError({{{options.input, 0, 0}, "cannot read this file: " + file.reason, ""}});
  return {std::move(*file.text), options.input, load};
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

// What the first process knows, in all of them.
std::map<Candidate, Evaluation> known_to_all(const std::map<Candidate, Evaluation>& known,
                                             const SearchProcesses& among) {
  if (among.processes == 1) return known;
  const std::vector<std::string> texts = among.gather([&] {
    std::string text;
    for (const auto& [candidate, found] : known) text += evaluated_line(candidate, found) + "\n";
    return text;
  });
  std::istringstream in(texts.front());
  std::map<Candidate, Evaluation> all;
  for (std::string line; std::getline(in, line);)
    if (const auto read = read_evaluated_line(line)) all.insert(*read);
  return all;
}

// Where results go.
struct PlanPaths {
  std::string best, state;
};

PlanSearchOptions plan_search_options(const Options& options, const PlanBase& base, const PlanPaths& paths,
                                      ProcessGroup* processes) {
  PlanSearchOptions search;
  if (processes != nullptr)
    search.among = search_processes(*processes, "a search of " + base.job.job.config_sha256);
  const bool is_first = search.among.process == 0;
  if (is_first) probe_outputs({paths.best, paths.state}, base.job.files);
  if (options.plan_flags.resume) {
    if (is_first) search.known = read_plan_state(paths.state, base);
    search.known = known_to_all(search.known, search.among);
  }
  return search;
}

// What a search found, or what would let the job fit.
struct FoundPlans {
  PlanSearchResult result;
  FittingSearch fitting;
};

// How far off such predictions are, of the best.
std::optional<LikelyTime> likely_of(const PlanBase& base, const PlanSearchResult& result) {
  if (result.best.empty()) return std::nullopt;
  const RankedCandidate& best = result.best.front();
  return likely_time(plan_job(load_candidate(base, best.candidate)), base.load, best.evaluation.step_s);
}

int report_plan(const Options& options, const PlanBase& base, const FoundPlans& found,
                const std::string& wrote, double seconds) {
  const PlanSearchResult& result = found.result;
  const std::optional<LikelyTime> likely =
      options.json || !options.quiet ? likely_of(base, result) : std::nullopt;
  if (options.json) {
    print(plan_json(base, result, found.fitting, {seconds, likely ? likely_json(*likely) : "null"}));
  } else if (!options.quiet) {
    print(plan_text(base, result, found.fitting) + (likely ? "\nthe best: " + likely_line(*likely) : "") +
          fmt::format("\n{:.1f} s\n", seconds) + wrote);
  }
  return plan_exit_code(!result.best.empty(), result.was_stopped);
}

// `explains`: looks for what would fit where nothing does.
FoundPlans find_plans(const PlannedJob& job, const PlanBase& base, const PlanSearchOptions& search,
                      bool explains) {
  FoundPlans found{search_jobs(base, search), {}};
  if (!explains || !found.result.best.empty() || found.result.was_stopped) return found;
  const auto with_nodes = [&](const Override& nodes) -> std::optional<PlanBase> {
    try {
      return job.base({nodes});
    } catch (const ConfigError&) {
      return std::nullopt;  // it names nodes, or its batch is too small
    }
  };
  found.fitting = nearest_that_fits(base, with_nodes, search);
  return found;
}

int search_and_report(const Options& options, const LoadOptions& load, ProcessGroup* processes) {
  const auto start = std::chrono::steady_clock::now();
  const PlannedJob job = read_job(options, load);
  const PlanBase base = job.base();
  const std::string best_path = options.output.value_or("best.yaml");
  const PlanPaths paths{best_path, best_path + ".searched"};
  PlanSearchOptions search = plan_search_options(options, base, paths, processes);
  const bool is_first = search.among.process == 0;
  const bool shows = is_first && !options.quiet && isatty(STDERR_FILENO) == 1;
  const InterruptNote note;
  search.progress = [&](const PlanSearchProgress& progress) {
    if (shows) show(progress);
    return !note.was_interrupted();
  };
  FoundPlans found;
  try {
    found = find_plans(job, base, search, options.json || !options.quiet);
  } catch (const ConfigError&) {
    if (shows) complain("\r\033[K");
    throw;
  } catch (const std::invalid_argument& error) {
    if (shows) complain("\r\033[K");
    refuse_search(options, error.what());
  }
  if (shows) complain("\r\033[K");
  const PlanSearchResult& result = found.result;
  if (!is_first) return plan_exit_code(!result.best.empty(), result.was_stopped);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::string wrote;
  if (result.was_stopped || options.plan_flags.resume)
    wrote += write_reported(paths.state, plan_state(base, result, search.known));
  const char* caution =
      result.is_without_contention
          ? "# The search was stopped: its step time has each transfer alone on its links.\n"
          : "";
  if (!result.best.empty())
    wrote += write_reported(paths.best, caution + plan_yaml(base, result.best.front()));
  return report_plan(options, base, found, wrote, took.count());
}

}  // namespace

int plan_jobs(const Options& options, const LoadOptions& load, ProcessGroup* processes) {
  if (is_plan_file(options.input)) refuse_search(options, "--plan splits a job, not a Plan file");
  try {
    return search_and_report(options, load, processes);
  } catch (const SearchLost& lost) {
    if (processes->speaks()) complain(fmt::format("simrun: not as planned: {}\n", lost.what()));
    return exit_code(lost.failure().kind);
  }
}

}  // namespace simrun
