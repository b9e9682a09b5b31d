#include "sim/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "sim/compiled_program.h"
#include "sim/durations.h"
#include "sim/fast_engine.h"
#include "sim/memory.h"

namespace simrun {

namespace {

bool steps_differ(const Plan& plan) {
  for (const Program& program : plan.programs)
    for (const Entry& entry : program.entries)
      if (entry.steps != Steps::every) return true;
  return false;
}

std::int64_t devices_of(const Plan& plan, std::int32_t pipeline_rank) {
  std::int64_t devices = 0;
  for (const DeviceRange& range : plan.stages.at(static_cast<std::size_t>(pipeline_rank)).devices)
    devices += range.count;
  return std::max<std::int64_t>(devices, 1);
}

// No event is later than all work of all ranks done one after the other: where that fits into picoseconds,
// every sum does.
void require_countable(const CompiledPlan& plan) {
  double total = 0;
  for (const CompiledRank& rank : plan.ranks) {
    std::vector<double> duration;
    for (const CompiledSegment& segment : rank.segments) {
      double sum = 0;
      for (Index s = 0; s < segment.steps; ++s)
        sum += static_cast<double>(rank.steps[segment.first_step + s].duration);
      duration.push_back(sum);
    }
    for (const CompiledEntry& entry : rank.entries) total += duration[entry.segment];
  }
  constexpr double limit = 9e18;
  if (total > limit)
    throw std::range_error(
        fmt::format("the ranks of one pipeline work {:.3g} s per step, too long to simulate", total * 1e-12));
}

void add_memory(const Plan& plan, EngineRun& run, Detail detail) {
  const MemoryDetail entries = detail == Detail::totals ? MemoryDetail::peak : MemoryDetail::entries;
  for (std::size_t r = 0; r < run.ranks.size(); ++r) {
    const MemoryWalk walk = walk_memory(plan, plan.programs[r], WhichStep::steady, entries);
    run.ranks[r].peak = walk.peak;
    if (detail != Detail::totals) run.ranks[r].memory = memory_events(walk, run.issue_times[r]);
  }
}

}  // namespace

Timeline simulate(const Plan& plan, const SimulateOptions& options) {
  Durations durations(plan);
  const CompiledPlan steady = compile_programs(plan, WhichStep::steady, durations);
  require_countable(steady);
  EngineRun run = run_engine(plan, steady, options.detail);
  add_memory(plan, run, options.detail);
  Timeline timeline;
  timeline.step = timeline.first_step = run.step;
  if (steps_differ(plan))
    timeline.first_step =
        run_engine(plan, compile_programs(plan, WhichStep::first, durations), Detail::totals).step;
  timeline.engine = "fast";
  timeline.provenance = plan.cluster.gpu.name + " profile";
  timeline.instructions = run.instructions;
  timeline.communication_instructions = run.communications;
  timeline.ranks = std::move(run.ranks);
  for (RankTimeline& rank : timeline.ranks) rank.multiplicity = devices_of(plan, rank.pipeline_rank);
  return timeline;
}

}  // namespace simrun
