// How far what `simrun --plan` finds is from the best of simulating every candidate: jobs of 2 to 64 GPUs by
// number, each for the least step time; of three, one has all the memory, one half and one 15 % of what lies
// between the least that any candidate needs and that of the fastest. With HOPELESS 0 also for the least
// memory.
//   exhaustive_search FIRST LAST [HOPELESS [FOLDER]]
// HOPELESS: candidates are not simulated whose estimate is so many times worse than the best one; 0: all are.
// FOLDER: keeps what was simulated, for the next run.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "planner/shortlist.h"
#include "planner/starting_split.h"
#include "tests/planner/every_candidate.h"

namespace simrun {
namespace {

constexpr double parts_of_memory[] = {1, 0.5, 0.15};

PlanBase base_of(unsigned number, const std::vector<Override>& overrides) {
  LoadOptions load;
  load.preset_directories = {SIMRUN_SOURCE_DIR "/configs"};
  load.overrides = overrides;
  const std::string text = searched_job(number);
  return plan_base(text, "searched.yaml",
                   with_starting_split(text, "searched.yaml", load, WrittenSizes::give_way));
}

void print_candidate(const char* what, const RankedCandidate& of) {
  fmt::print("    {} {}: {:.6g} s {:.4g} GiB, estimated {:.6g} s {:.4g} GiB\n", what, describe(of.candidate),
             of.evaluation.step_s, static_cast<double>(of.evaluation.peak_bytes) / 0x1p30, of.estimate.step_s,
             of.estimate.peak_bytes / 0x1p30);
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct Tally {
  int met = 0, all = 0;
  double worst = 1;
};

void compare(unsigned number, const char* what, const std::vector<Override>& overrides,
             const std::vector<RankedCandidate>& all, Tally& tally) {
  const PlanBase base = base_of(number, overrides);
  const RankedCandidate best = best_of_every(base, all);
  if (best.evaluation.engine.empty()) return fmt::print("  {}: nothing fits\n", what);
  PlanSearchOptions options;
  options.threads = 2;
  const auto start = std::chrono::steady_clock::now();
  const PlanSearchResult found = search_jobs(base, options);
  const double seconds = seconds_since(start);
  ++tally.all;
  if (found.best.empty()) {
    fmt::print("  {}: the search finds nothing\n", what);
    return print_candidate("MISSED", best);
  }
  const auto goal = [&](const RankedCandidate& of) {
    return goal_of(base.job.plan.minimise, of.evaluation.step_s,
                   static_cast<double>(of.evaluation.peak_bytes));
  };
  const double ratio = goal(found.best.front()) / goal(best);
  fmt::print("  {}: {:+.3f} %, {} candidates, {} evaluated, {:.1f} s\n", what, 100 * (ratio - 1),
             found.candidates, found.evaluated, seconds);
  tally.worst = std::max(tally.worst, ratio);
  if (ratio <= 1 + 1e-9) return void(++tally.met);
  print_candidate("MISSED", best);
  print_candidate("found ", found.best.front());
}

// For looking at what estimates err.
void write_estimates(const std::string& path, const std::vector<RankedCandidate>& all) {
  std::ofstream file(path);
  for (const RankedCandidate& of : all)
    if (of.evaluation.refusal.empty())
      file << fmt::format("{};{};{};{};{};{};{}\n", describe(of.candidate), of.evaluation.step_s,
                          of.estimate.step_s, of.evaluation.peak_bytes, of.estimate.peak_bytes,
                          int{of.evaluation.fits}, of.estimate.room_bytes);
}

// MiB; the same one for every run with the folder.
std::int64_t limit_of(unsigned number, double part, const std::string& folder) {
  const std::string path = fmt::format("{}/{}.limit", folder, number);
  std::int64_t limit = 0;
  if (!folder.empty() && std::ifstream(path) >> limit) return limit;
  limit = static_cast<std::int64_t>(tight_memory(base_of(number, {}), part) / 0x1p20);
  if (!folder.empty()) std::ofstream(path) << limit << "\n";
  return limit;
}

void run(unsigned number, double hopeless, const std::string& folder, Tally& tally) {
  const auto start = std::chrono::steady_clock::now();
  fmt::print("job {}\n{}", number, searched_job(number));
  std::vector<Override> overrides;
  const double part = parts_of_memory[number % std::size(parts_of_memory)];
  // 0: by the estimates nothing fits as it is.
  if (const std::int64_t limit = part < 1 ? limit_of(number, part, folder) : 0; limit > 0)
    overrides.push_back({"plan.max_memory", fmt::format("{} MiB", limit)});
  for (const Override& of : overrides) fmt::print("{}: {}\n", of.key, of.value);
  EverySearch how{2, hopeless};
  if (!folder.empty()) how.known_file = fmt::format("{}/{}.txt", folder, number);
  const EveryCandidate every = simulate_every(base_of(number, overrides), how);
  if (!folder.empty()) write_estimates(fmt::format("{}/{}.csv", folder, number), every.all);
  const auto fitting = std::ranges::count_if(every.all, [](const RankedCandidate& of) {
    return of.evaluation.refusal.empty() && of.evaluation.fits;
  });
  fmt::print("  {} simulated, {} fit, {} hopeless, {:.1f} s\n", every.all.size(), fitting, every.dropped,
             seconds_since(start));
  std::fflush(stdout);
  compare(number, "time", overrides, every.all, tally);
  if (hopeless == 0 && part == 1) compare(number, "memory", {{"plan.minimise", "memory"}}, every.all, tally);
  std::fflush(stdout);
}

}  // namespace
}  // namespace simrun

int main(int argc, char** argv) {
  const auto number = [&](int i, double other) { return argc > i ? std::strtod(argv[i], nullptr) : other; };
  const auto first = static_cast<unsigned>(number(1, 0)), last = static_cast<unsigned>(number(2, 5));
  simrun::Tally tally;
  for (unsigned i = first; i <= last; ++i) simrun::run(i, number(3, 0), argc > 4 ? argv[4] : "", tally);
  fmt::print("{} of {} met, worst {:+.3f} %\n", tally.met, tally.all, 100 * (tally.worst - 1));
}
