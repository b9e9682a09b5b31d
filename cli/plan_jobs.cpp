#include "cli/plan_jobs.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <sstream>

#include "cli/console.h"
#include "cli/interrupt_note.h"
#include "cli/outputs.h"
#include "cli/plan_processes.h"
#include "cli/plan_report.h"
#include "cli/plan_state.h"
#include "cli/read_input.h"
#include "configs/text_file.h"
#include "planner/search.h"
#include "planner/searched_lines.h"
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

int report_plan(const Options& options, const PlanBase& base, const PlanSearchResult& result,
                const std::string& wrote, double seconds) {
  if (options.json)
    print(plan_json(base, result, seconds));
  else if (!options.quiet)
    print(plan_text(base, result) + fmt::format("\n{:.1f} s\n", seconds) + wrote);
  return plan_exit_code(!result.best.empty(), result.was_stopped);
}

int search_and_report(const Options& options, const LoadOptions& load, ProcessGroup* processes) {
  const auto start = std::chrono::steady_clock::now();
  const PlanBase base = read_base(options, load);
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
  PlanSearchResult result;
  try {
    result = search_jobs(base, search);
  } catch (const ConfigError&) {
    if (shows) complain("\r\033[K");
    throw;
  } catch (const std::invalid_argument& error) {
    if (shows) complain("\r\033[K");
    refuse_search(options, error.what());
  }
  if (shows) complain("\r\033[K");
  if (!is_first) return plan_exit_code(!result.best.empty(), result.was_stopped);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::string wrote;
  if (result.was_stopped || options.plan_flags.resume)
    wrote += write_reported(paths.state, plan_state(base, result, search.known));
  if (!result.best.empty()) wrote += write_reported(paths.best, plan_yaml(base, result.best.front()));
  return report_plan(options, base, result, wrote, took.count());
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
