// schedule_bench [quick]: over a grid of sizes, pass times, communication times and memory limits, the best
// named schedule, what `auto` finds in the same memory with the named schedules as seeds and without, and how
// far that is from a makespan that nothing can beat; then how long every schedule takes to generate at
// p = 64, m = 4096. `quick`: no size above 8 ranks.
//
// Limits are in activations of a whole rank: v stages per rank divide the times of a pass by v and multiply
// the activations. Schedules with two copies of the parameters are left out: they hold more at any limit.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <limits>
#include <string>
#include <vector>

#include "schedules/evaluate_schedule.h"
#include "schedules/schedule_search.h"

namespace simrun {
namespace {

// Of this process, so that a busy machine does not count.
double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

struct Row {
  int ranks = 1, microbatches = 1, virtual_stages = 1;
  int forward = 1, input = 1, weight = 1;  // of a whole rank
  double communication = 0;                // as a share of F
  int memory_limit = 0;                    // in activations of a whole rank
};
constexpr int ticks = 20;  // per unit, so that the parts of a rank have whole times

PipelineShape shape_of(const Row& row) {
  PipelineShape shape;
  shape.ranks = row.ranks;
  shape.microbatches = row.microbatches;
  shape.virtual_stages = row.virtual_stages;
  const std::int64_t unit = ticks / row.virtual_stages;
  PassTimes& times = shape.times;
  times.forward = unit * row.forward;
  times.backward_input = unit * row.input;
  times.backward_weight = unit * row.weight;
  times.backward = times.backward_input + times.backward_weight;
  times.overlapped = times.forward + times.backward;
  times.communication = static_cast<std::int64_t>(ticks * row.forward * row.communication);
  shape.memory_limit = row.memory_limit * row.virtual_stages;
  return shape;
}

struct Best {
  std::int64_t makespan = std::numeric_limits<std::int64_t>::max();
  std::string name = "none";
};

Best best_named(const PipelineShape& shape) {
  Best best;
  for (const ScheduleEntry& entry : pipeline_schedules()) {
    if (entry.placement == Placement::bidirectional || !entry.refusal(shape).empty()) continue;
    const ScheduleTimes times = evaluate(entry.build(shape), shape);
    const std::vector<int>& peaks = times.peak_in_flight_at_w;
    if (*std::max_element(peaks.begin(), peaks.end()) > shape.memory_limit) continue;
    if (times.makespan < best.makespan) best = {times.makespan, entry.name};
  }
  return best;
}

struct Totals {
  int rows = 0, better = 0, worse = 0, better_alone = 0, worse_alone = 0, optimal = 0;
  double widest_gap = 0, all_gaps = 0, longest = 0;
};

double units(std::int64_t makespan) { return static_cast<double>(makespan) / ticks; }

void print_row(const Row& row, Totals& totals) {
  const PipelineShape shape = shape_of(row);
  const Best named = best_named(shape);
  const double start = cpu_seconds();
  const SearchResult found = best_order(shape, {});
  const double seconds = cpu_seconds() - start;
  const SearchResult alone = best_order(shape, {.named_seeds = false});
  const double gap = 100.0 * static_cast<double>(found.makespan - found.lower_bound) /
                     static_cast<double>(found.lower_bound);
  ++totals.rows;
  totals.better += found.makespan < named.makespan ? 1 : 0;
  totals.worse += found.makespan > named.makespan ? 1 : 0;
  totals.better_alone += alone.makespan < named.makespan ? 1 : 0;
  totals.worse_alone += alone.makespan > named.makespan ? 1 : 0;
  totals.optimal += found.makespan == found.lower_bound ? 1 : 0;
  totals.widest_gap = std::max(totals.widest_gap, gap);
  totals.all_gaps += gap;
  totals.longest = std::max(totals.longest, seconds);
  const std::string of_named = named.name == "none" ? "-" : fmt::format("{:.2f}", units(named.makespan));
  fmt::print(
      "{:>2} {:>2} {} {:>2} {:>2} {:>2} {:>5} {:>6}  {:<24} {:>8}  {:>8.2f} {:>8.2f}  {:>8.2f} {:>5.1f} %  "
      "{:.1f}\n",
      row.ranks, row.microbatches, row.virtual_stages, row.forward, row.input, row.weight, row.communication,
      row.memory_limit, named.name, of_named, units(found.makespan), units(alone.makespan),
      units(found.lower_bound), gap, seconds);
  std::fflush(stdout);
}

void print_grid(int most_ranks) {
  fmt::print(
      "                              best named schedule                     auto\n"
      " p  m v  F  I  W  comm memory  name                     makespan   seeded  without     bound     gap  "
      "seconds\n");
  Totals totals;
  // Equal times; the usual example of a transformer; the Zero Bubble paper's 1.5 B model (its table 6: 18.5,
  // 18.1 and 9.3 ms).
  const std::vector<std::array<int, 3>> costs = {{1, 1, 1}, {2, 3, 1}, {37, 36, 19}};
  for (const auto& [ranks, microbatches] : {std::pair{8, 32}, {16, 64}})
    for (const int virtual_stages : {1, 2})
      for (const auto& [forward, input, weight] : costs)
        for (const double communication : {0.0, 0.1})
          for (const int limit : {ranks / 2, ranks * 3 / 4, ranks, ranks * 3 / 2}) {
            if (ranks > most_ranks) continue;
            print_row({ranks, microbatches, virtual_stages, forward, input, weight, communication, limit},
                      totals);
          }
  fmt::print(
      "auto: {} of {} strictly better than every named schedule, {} worse; not seeded with them {} better, "
      "{} "
      "worse; {} proven optimal, widest gap {:.1f} %, mean {:.2f} %; longest {:.1f} s\n",
      totals.better, totals.rows, totals.worse, totals.better_alone, totals.worse_alone, totals.optimal,
      totals.widest_gap, totals.all_gaps / std::max(totals.rows, 1), totals.longest);
}

void print_generation_times() {
  fmt::print("\nCPU seconds to generate a schedule of 64 ranks and 4096 microbatches\n");
  for (const ScheduleEntry& entry : pipeline_schedules()) {
    PipelineShape shape = {.ranks = 64, .virtual_stages = 8, .microbatches = 4096};
    if (!entry.refusal(shape).empty()) shape.virtual_stages = entry.default_virtual_stages;
    const double start = cpu_seconds();
    const Schedule schedule = entry.build(shape);
    const double seconds = cpu_seconds() - start;
    fmt::print("{:<26} v {}  {:.3f}\n", entry.name, shape.virtual_stages, seconds);
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace simrun

int main(int argc, char** argv) {
  const bool quick = argc > 1 && std::string(argv[1]) == "quick";
  simrun::print_generation_times();
  simrun::print_grid(quick ? 8 : 16);
  return 0;
}
