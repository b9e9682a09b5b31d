#include "cli/plan_state.h"

#include <fmt/format.h>

#include <sstream>
#include <vector>

#include "cli/version.h"
#include "configs/diagnostics.h"
#include "configs/text_file.h"

namespace simrun {
namespace {

std::string state_header(const PlanBase& base) {
  return fmt::format("simrun {} --plan {}", version(), base.job.job.config_sha256);
}

// Fields of a line are separated by tabs; the refusal, which may hold anything else, is the last.
std::string line_of(const Candidate& candidate, const Evaluation& found) {
  std::string refusal = found.refusal;
  for (char& c : refusal)
    if (c == '\n' || c == '\t' || c == '\r') c = ' ';
  return fmt::format("{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}",
                     candidate.tensor, candidate.context, candidate.pipeline, candidate.virtual_stages,
                     candidate.expert, candidate.expert_tensor, candidate.data, candidate.micro_batch,
                     candidate.zero_stage, static_cast<int>(candidate.recompute),
                     candidate.schedule.empty() ? "-" : candidate.schedule, found.step_s, found.tokens_per_s,
                     found.mfu, found.bubble_fraction, found.exposed_s, found.peak_bytes, found.limit_bytes,
                     int{found.fits}, found.engine.empty() ? "-" : found.engine) +
         "\t" + refusal + "\n";
}

// False: it is no such line.
bool read_line(const std::string& line, Candidate& candidate, Evaluation& found) {
  std::istringstream in(line);
  int recompute = 0, fits = 0;
  in >> candidate.tensor >> candidate.context >> candidate.pipeline >> candidate.virtual_stages >>
      candidate.expert >> candidate.expert_tensor >> candidate.data >> candidate.micro_batch >>
      candidate.zero_stage >> recompute >> candidate.schedule >> found.step_s >> found.tokens_per_s >>
      found.mfu >> found.bubble_fraction >> found.exposed_s >> found.peak_bytes >> found.limit_bytes >>
      fits >> found.engine;
  if (!in || recompute < 0 || recompute > static_cast<int>(RecomputeGranularity::full)) return false;
  candidate.recompute = static_cast<RecomputeGranularity>(recompute);
  found.fits = fits != 0;
  if (candidate.schedule == "-") candidate.schedule.clear();
  if (found.engine == "-") found.engine.clear();
  return true;
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
  for (const auto& [candidate, found] : all) text += line_of(candidate, found);
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
  if (line != state_header(base))
    throw ConfigError({{{path, 1, 1},
                        "--resume: this is of another job, other limits or another version of simrun",
                        "search without --resume."}});
  std::map<Candidate, Evaluation> known;
  for (int number = 2; std::getline(in, line); ++number) {
    if (line.empty()) continue;
    Candidate candidate;
    Evaluation found;
    if (!read_line(line, candidate, found))
      throw ConfigError(
          {{{path, number, 1}, "--resume: this line cannot be read", "search without --resume."}});
    const std::size_t last = line.rfind('\t');
    if (last != std::string::npos && found.step_s <= 0) found.refusal = line.substr(last + 1);
    known.emplace(candidate, found);
  }
  return known;
}

}  // namespace simrun
