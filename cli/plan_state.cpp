#include "cli/plan_state.h"

#include <fmt/format.h>

#include <sstream>
#include <vector>

#include "cli/version.h"
#include "configs/diagnostics.h"
#include "configs/text_file.h"
#include "planner/searched_lines.h"

namespace simrun {
namespace {

std::string state_header(const PlanBase& base) {
  return fmt::format("simrun {} --plan {}", version(), base.job.job.config_sha256);
}

}  // namespace

std::string plan_state(const PlanBase& base, const PlanSearchResult& result,
                       const std::map<Candidate, Evaluation>& known) {
  std::map<Candidate, Evaluation> all = known;
  for (const auto* found : {&result.best, &result.pareto, &result.rest})
    for (const RankedCandidate& of : *found)
      if (!of.candidate.is_as_written && of.candidate.balance.empty() &&
          (of.evaluation.engine == "fast" || !of.evaluation.refusal.empty()))
        all.emplace(of.candidate, of.evaluation);
  std::string text = state_header(base) + "\n";
  for (const auto& [candidate, found] : all) text += evaluated_line(candidate, found) + "\n";
  return text;
}

std::map<Candidate, Evaluation> read_plan_state(const std::string& path, const PlanBase& base) {
  const TextFile file = read_text_file(path);
  if (!file.text)
    throw ConfigError({{{path, 0, 0},
                        "--resume: cannot read what an earlier search left: " + file.reason,
                        "a search that was stopped with Ctrl-C writes it."}});
  std::istringstream in(*file.text);
  std::string line;
  std::getline(in, line);
  if (!line.starts_with("simrun ") || line.find(" --plan ") == std::string::npos)
    throw ConfigError(
        {{{path, 1, 1}, "--resume: this is nothing that a stopped search left", "search without --resume."}});
  if (line != state_header(base))
    throw ConfigError({{{path, 1, 1},
                        "--resume: this is of another job, other limits or another version of simrun",
                        "search without --resume."}});
  std::map<Candidate, Evaluation> known;
  for (int number = 2; std::getline(in, line); ++number) {
    if (line.empty()) continue;
    const auto searched = read_evaluated_line(line);
    if (!searched)
      throw ConfigError(
          {{{path, number, 1}, "--resume: this line cannot be read", "search without --resume."}});
    known.insert(*searched);
  }
  return known;
}

}  // namespace simrun
