// How far what `simrun --plan` finds is from the best of simulating every candidate: jobs of 4 to 64 GPUs by
// number, each for the least step time with all the memory and with a part of it, and for the least memory.
//   exhaustive_search FIRST LAST [STEP [MOST_MEMORY [FOLDER]]]
// FOLDER: keeps what was simulated, for the next run.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "planner/shortlist.h"
#include "tests/planner/every_candidate.h"

namespace simrun {
namespace {

PlanBase base_of(unsigned number, const std::vector<Override>& overrides) {
  LoadOptions load;
  load.preset_directories = {SIMRUN_SOURCE_DIR "/configs"};
  load.overrides = overrides;
  return plan_base(searched_job(number), "searched.yaml", load);
}

void print_candidate(const char* what, const RankedCandidate& of) {
  fmt::print("    {} {}: {:.6g} s {:.4g} GiB, estimated {:.6g} s {:.4g} GiB\n", what, describe(of.candidate),
             of.evaluation.step_s, static_cast<double>(of.evaluation.peak_bytes) / 0x1p30, of.estimate.step_s,
             of.estimate.peak_bytes / 0x1p30);
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void compare(unsigned number, const char* what, const std::vector<Override>& overrides,
             const std::vector<RankedCandidate>& all) {
  const PlanBase base = base_of(number, overrides);
  const RankedCandidate best = best_of_every(base, all);
  PlanSearchOptions options;
  options.threads = 2;
  const auto start = std::chrono::steady_clock::now();
  const PlanSearchResult found = search_jobs(base, options);
  const double seconds = seconds_since(start);
  if (best.evaluation.engine.empty() || found.best.empty()) {
    fmt::print("  {}: {} by all, {} by the search\n", what, best.evaluation.engine.empty() ? "nothing" : "some",
               found.best.empty() ? "nothing" : "some");
    if (!best.evaluation.engine.empty()) print_candidate("LOST", best);
    return;
  }
  const auto goal = [&](const RankedCandidate& of) {
    return goal_of(base.job.plan.minimise, of.evaluation.step_s, static_cast<double>(of.evaluation.peak_bytes));
  };
  const double ratio = goal(found.best.front()) / goal(best);
  fmt::print("  {}: ratio {:.6f}, {} candidates, {} evaluated, {:.1f} s\n", what, ratio, found.candidates,
             found.evaluated, seconds);
  if (ratio <= 1 + 1e-9) return;
  print_candidate("WORSE all   ", best);
  print_candidate("WORSE search", found.best.front());
}

void write_estimates(const std::string& path, const std::vector<RankedCandidate>& all) {
  std::ofstream file(path);
  for (const RankedCandidate& of : all)
    if (of.evaluation.refusal.empty())
      file << fmt::format("{};{};{};{};{};{};{}\n", describe(of.candidate), of.evaluation.step_s,
                          of.estimate.step_s, of.evaluation.peak_bytes, of.estimate.peak_bytes,
                          int{of.evaluation.fits}, of.estimate.room_bytes);
}

void run(unsigned number, double most_memory, const std::string& folder) {
  const auto start = std::chrono::steady_clock::now();
  const PlanBase base = base_of(number, {});
  fmt::print("job {}\n{}", number, searched_job(number));
  EverySearch how{2, most_memory};
  if (!folder.empty()) how.known_file = fmt::format("{}/{}.txt", folder, number);
  const EveryCandidate every = simulate_every(base, how);
  if (!folder.empty()) write_estimates(fmt::format("{}/{}.csv", folder, number), every.all);
  std::int64_t least = 0, peak = 0;
  double step = 0;
  std::int64_t fitting = 0;
  for (const RankedCandidate& of : every.all) {
    if (!of.evaluation.refusal.empty()) continue;
    if (least == 0 || of.evaluation.peak_bytes < least) least = of.evaluation.peak_bytes;
    if (!of.evaluation.fits) continue;
    ++fitting;
    if (step == 0 || of.evaluation.step_s < step) step = of.evaluation.step_s, peak = of.evaluation.peak_bytes;
  }
  fmt::print("  {} simulated, {} fit, {} skipped, {:.1f} s\n", every.all.size(), fitting, every.skipped,
             seconds_since(start));
  std::fflush(stdout);
  compare(number, "time", {}, every.all);
  compare(number, "memory", {{"plan.minimise", "memory"}}, every.all);
  if (step > 0)
    for (const double part : {0.5, 0.15}) {
      const double room = static_cast<double>(least) + part * static_cast<double>(peak - least);
      compare(number, "tight", {{"plan.max_memory", fmt::format("{} B", static_cast<std::int64_t>(room))}},
              every.all);
    }
  std::fflush(stdout);
}

}  // namespace
}  // namespace simrun

int main(int argc, char** argv) {
  const auto number = [&](int i, double other) { return argc > i ? std::strtod(argv[i], nullptr) : other; };
  const auto first = static_cast<unsigned>(number(1, 0)), last = static_cast<unsigned>(number(2, 5));
  const auto step = static_cast<unsigned>(number(3, 1));
  for (unsigned i = first; i <= last; i += step) simrun::run(i, number(4, 0), argc > 5 ? argv[5] : "");
}
