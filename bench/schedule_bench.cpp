// schedule_bench [ranks [microbatches [seeds|no-seeds]]]: over a grid of pass times, communication times and
// memory limits, the best named schedule, what the search finds in the same memory, and how far that is from
// a makespan that nothing can beat.
//
// Limits are in activations of a whole rank. Two stages per rank halve the times of a pass and double the
// number of activations. Schedules with two copies of the parameters are left out.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <string>

#include "schedules/evaluate_schedule.h"
#include "schedules/schedule_search.h"

namespace simrun {
namespace {

// Times of a whole rank's passes in twentieths of a unit, so that halves are whole numbers.
struct Row {
  int forward = 1, input = 1, weight = 1;
  double communication = 0;  // in forwards
  int memory_limit = 0;      // in activations of a whole rank
};

struct Layout {
  Placement placement = Placement::loop;
  int virtual_stages = 1;
  const char* name = "";
};
constexpr Layout layouts[] = {
    {Placement::loop, 1, "line"}, {Placement::wave, 2, "V"}, {Placement::loop, 2, "loop of 2"}};

PipelineShape shape_of(const Row& row, const Layout& layout, int ranks, int microbatches) {
  PipelineShape shape;
  shape.ranks = ranks;
  shape.microbatches = microbatches;
  shape.virtual_stages = layout.virtual_stages;
  const int unit = 20 / layout.virtual_stages;
  shape.times.forward = unit * row.forward;
  shape.times.backward_input = unit * row.input;
  shape.times.backward_weight = unit * row.weight;
  shape.times.backward = unit * (row.input + row.weight);
  shape.times.overlapped = unit * (row.forward + row.input + row.weight);
  shape.times.communication = static_cast<std::int64_t>(20 * row.forward * row.communication);
  shape.memory_limit = row.memory_limit * layout.virtual_stages;
  return shape;
}

struct Best {
  std::int64_t makespan = std::numeric_limits<std::int64_t>::max();
  std::string name = "none";
};

void take_named(const PipelineShape& shape, const Layout& layout, Best& best) {
  for (const ScheduleEntry& entry : pipeline_schedules()) {
    if (entry.placement != layout.placement || !entry.refusal(shape).empty()) continue;
    const ScheduleTimes times = evaluate(entry.build(shape), shape);
    const std::vector<int>& peaks = times.peak_in_flight_at_w;
    if (*std::max_element(peaks.begin(), peaks.end()) > shape.memory_limit) continue;
    if (times.makespan < best.makespan) best = {times.makespan, entry.name};
  }
}

struct Totals {
  int rows = 0, better = 0, worse = 0, optimal = 0;
  double widest_gap = 0;
};

void print_row(const Row& row, int ranks, int microbatches, bool seeds, Totals& totals) {
  Best named;
  Best found;
  std::int64_t bound = std::numeric_limits<std::int64_t>::max();
  for (const Layout& layout : layouts) {
    const PipelineShape shape = shape_of(row, layout, ranks, microbatches);
    take_named(shape, layout, named);
    const SearchResult result = search_schedule(shape, {.placement = layout.placement, .named_seeds = seeds});
    bound = std::min(bound, result.lower_bound);
    if (result.makespan < found.makespan) found = {result.makespan, layout.name};
  }
  const double gap = 100.0 * static_cast<double>(found.makespan - bound) / static_cast<double>(bound);
  ++totals.rows;
  totals.better += found.makespan < named.makespan ? 1 : 0;
  totals.worse += found.makespan > named.makespan ? 1 : 0;
  totals.optimal += found.makespan == bound ? 1 : 0;
  totals.widest_gap = std::max(totals.widest_gap, gap);
  const std::string best_named =
      named.name == "none" ? "none" : fmt::format("{:.2f}", static_cast<double>(named.makespan) / 20);
  fmt::print("{} {} {} {:>5} {:>6}  {:<26} {:>9}  {:<9} {:>9.2f}  {:>9.2f} {:>5.1f} %\n", row.forward,
             row.input, row.weight, row.communication, row.memory_limit, named.name, best_named, found.name,
             static_cast<double>(found.makespan) / 20, static_cast<double>(bound) / 20, gap);
  std::fflush(stdout);
}

void print_grid(int ranks, int microbatches, bool seeds) {
  fmt::print("{} ranks, {} microbatches, named schedules {}given to the search\n", ranks, microbatches,
             seeds ? "" : "not ");
  fmt::print(
      "F I W  comm memory  best named                  makespan  search     makespan      bound     gap\n");
  Totals totals;
  for (const auto& [forward, input, weight] : {std::array{1, 1, 1}, {2, 3, 1}, {1, 2, 1}, {3, 2, 3}})
    for (const double communication : {0.0, 0.1, 0.5, 1.0})
      for (const int limit : {ranks / 2, ranks, 3 * ranks / 2, 2 * ranks})
        print_row({forward, input, weight, communication, limit}, ranks, microbatches, seeds, totals);
  fmt::print("search: {} of {} strictly better, {} worse; {} proven optimal, widest gap {:.1f} %\n",
             totals.better, totals.rows, totals.worse, totals.optimal, totals.widest_gap);
}

}  // namespace
}  // namespace simrun

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 16;
  const int microbatches = argc > 2 ? std::atoi(argv[2]) : 64;
  const bool seeds = argc > 3 && std::string(argv[3]) == "seeds";
  simrun::print_grid(ranks, microbatches, seeds);
  return 0;
}
