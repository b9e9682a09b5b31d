#include "sim/simulate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

#include "configs/node_groups.h"
#include "schedules/extent_tables.h"
#include "sim/compiled_program.h"
#include "sim/compute_overlap.h"
#include "sim/contention.h"
#include "sim/durations.h"
#include "sim/exchange_groups.h"
#include "sim/exchange_traffic.h"
#include "sim/held_memory.h"
#include "sim/kernel_slowdowns.h"
#include "sim/meetings.h"
#include "sim/memory.h"
#include "sim/simgrid_run.h"
#include "sim/stream_engine.h"
#include "sim/symmetry.h"
#include "sim/timeline_bytes.h"
#include "sim/worker.h"

namespace simrun {

namespace {

bool steps_differ(const Plan& plan) {
  for (const Program& program : plan.programs)
    for (const Entry& entry : program.entries)
      if (entry.steps != Steps::every) return true;
  return false;
}

// Of all classes of the rank's GPUs.
Picoseconds longest(const CompiledPlan& plan, std::size_t rank, std::size_t segment, Index step) {
  const auto duration = [&](const CompiledRank& of) {
    return of.steps[of.segments[segment].first_step + step].duration;
  };
  Picoseconds longest = duration(plan.ranks[rank]);
  for (const CompiledRank& other : plan.tables[rank].classes) longest = std::max(longest, duration(other));
  return longest;
}

// No event is later than all work of all ranks done one after the other: where that fits into picoseconds,
// every sum does. `most_slowdown`: of a kernel.
void require_countable(const CompiledPlan& plan, double most_slowdown) {
  double total = 0;
  for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
    const CompiledRank& rank = plan.ranks[r];
    std::vector<double> duration(rank.segments.size(), 0);
    for (std::size_t segment = 0; segment < duration.size(); ++segment)
      for (Index step = 0; step < rank.segments[segment].steps; ++step)
        duration[segment] += static_cast<double>(longest(plan, r, segment, step));
    for (const CompiledEntry& entry : rank.entries) total += duration[entry.segment] * most_slowdown;
  }
  constexpr double limit = 9e18;
  if (total > limit)
    throw std::range_error(
        fmt::format("the ranks of one pipeline work {:.3g} s per step, too long to simulate", total * 1e-12));
}

// GPUs that were kept apart for their tables and came out alike are one class, behind the recorded ones.
void join_equal(const Plan& plan, std::vector<RankTimeline>& ranks) {
  const std::size_t recorded = plan.programs.size();
  const GpuKinds kinds(plan.cluster);
  std::vector<RankTimeline> kept(
      std::make_move_iterator(ranks.begin()),
      std::make_move_iterator(ranks.begin() + static_cast<std::ptrdiff_t>(recorded)));
  for (std::size_t r = recorded; r < ranks.size(); ++r) {
    const auto alike = std::find_if(kept.begin(), kept.end(), [&](const RankTimeline& other) {
      return other.pipeline_rank == ranks[r].pipeline_rank && other.totals == ranks[r].totals &&
             other.peak == ranks[r].peak && kinds.of(other.device) == kinds.of(ranks[r].device);
    });
    if (alike == kept.end())
      kept.push_back(std::move(ranks[r]));
    else
      alike->multiplicity += ranks[r].multiplicity;
  }
  ranks = std::move(kept);
}

// By class: of the GPU of its kind with the highest peak, for all of that kind on the pipeline rank.
std::vector<std::optional<HeldMemory>> held_by_fullest(const Plan& plan, const Program& program,
                                                       const TableClasses& classes,
                                                       const std::vector<MemoryPeak>& peaks) {
  std::vector<std::optional<HeldMemory>> held(peaks.size());
  if (plan.framework.memory.allocator == AllocatorKind::none) return held;
  const GpuKinds kinds(plan.cluster);
  const auto kind_of = [&](std::size_t c) {
    return kinds.of(device_at(plan, program.pipeline_rank, classes.first_gpu[c]));
  };
  std::map<std::size_t, std::size_t> fullest;  // class by kind
  for (std::size_t c = 0; c < peaks.size(); ++c) {
    const auto [known, is_new] = fullest.try_emplace(kind_of(c), c);
    if (!is_new && peaks[c].bytes > peaks[known->second].bytes) known->second = c;
  }
  for (const auto& [kind, c] : fullest) held[c] = held_memory(plan, program, classes.first_gpu[c]);
  for (std::size_t c = 0; c < peaks.size(); ++c) held[c] = held[fullest.at(kind_of(c))];
  return held;
}

// Peaks are equal on all GPUs of a pipeline rank that have equal tables; events belong to the recorded one.
void add_memory(const Plan& plan, EngineRun& run, Detail detail) {
  bool has_classes = false;
  const MemoryDetail entries = detail == Detail::totals ? MemoryDetail::peak : MemoryDetail::entries;
  for (std::size_t r = 0; r < plan.programs.size(); ++r) {
    const Program& program = plan.programs[r];
    const TableClasses classes = table_classes(plan, program);
    has_classes = has_classes || classes.first_gpu.size() > 1;
    const MemoryWalk walk = walk_memory(plan, program, WhichStep::steady, entries, MemoryPlace{});
    std::vector<MemoryPeak> peaks{walk.peak};
    for (std::size_t c = 1; c < classes.first_gpu.size(); ++c)
      peaks.push_back(
          walk_memory(plan, program, WhichStep::steady, MemoryDetail::peak, {classes.first_gpu[c]}).peak);
    const std::int64_t host = peak_outside(plan, program, MemorySpace::host);
    const std::int64_t nvme = peak_outside(plan, program, MemorySpace::nvme);
    const std::vector<std::optional<HeldMemory>> held = held_by_fullest(plan, program, classes, peaks);
    for (RankTimeline& rank : run.ranks) {
      if (rank.pipeline_rank != program.pipeline_rank) continue;
      rank.host_bytes = host;
      rank.nvme_bytes = nvme;
      const std::size_t of_class =
          peaks.size() == 1 ? 0 : classes.of_gpu[local_index(plan, rank.pipeline_rank, rank.device)];
      rank.held = held[of_class];
      rank.peak = peaks[of_class];
    }
    if (detail != Detail::totals) run.ranks[r].memory = memory_events(walk, run.issue_times[r]);
  }
  if (has_classes) join_equal(plan, run.ranks);
}

Timeline timeline_of(const Plan& plan, EngineRun run, Detail detail) {
  add_memory(plan, run, detail);
  Timeline timeline;
  timeline.step = timeline.first_step = run.step;
  timeline.provenance = gpus_text(plan.cluster) + " profile";
  timeline.instructions = run.instructions;
  timeline.communication_instructions = run.communications;
  timeline.ranks = std::move(run.ranks);
  std::stable_sort(
      timeline.ranks.begin(), timeline.ranks.end(),
      [](const RankTimeline& a, const RankTimeline& b) { return a.pipeline_rank < b.pipeline_rank; });
  return timeline;
}

std::string percent(double share) { return fmt::format("{:.2g} %", 100 * share); }

// Why one GPU cannot stand for all of its pipeline rank; "" where it can, since all of them take equally long
// for everything.
std::string why_apart(const CompiledPlan& steady, const Durations& durations,
                      const KernelSlowdowns& slowdowns) {
  std::vector<std::string> reasons;
  if (slowdowns.has_jitter()) reasons.emplace_back("kernels jitter");
  if (slowdowns.has_stragglers()) reasons.emplace_back("some GPUs straggle");
  if (steady.has_classes())
    reasons.emplace_back(durations.has_gpu_kinds() ? "they are of unlike kinds" : "they have unequal work");
  if (!durations.uniform()) reasons.emplace_back("their links are unequal");
  return fmt::format("{}", fmt::join(reasons, ", "));
}

// Those of the first GPU where another has none: of other pipeline ranks.
std::vector<Flight> with_first(const std::vector<Flight>& others, const std::vector<Flight>& of_first) {
  std::vector<Flight> flights = others;
  std::set<Index> flown;
  for (const Flight& of : others) flown.insert(of.exchange);
  for (const Flight& of : of_first)
    if (!flown.contains(of.exchange)) flights.push_back(of);
  return flights;
}

class FastEngine {
 public:
  FastEngine(const Plan& plan, const CompiledPlan& steady, Durations& durations,
             const KernelSlowdowns& slowdowns)
      : plan_(plan),
        steady_(steady),
        durations_(durations),
        slowdowns_(slowdowns.empty() ? nullptr : &slowdowns),
        why_apart_(why_apart(steady, durations, slowdowns)),
        instantiation_(why_apart_.empty() ? Instantiation::representatives : Instantiation::every_gpu) {}

  // Every transfer with its links for itself, and no look at whether that is so.
  Timeline run_alone(Detail detail) {
    Timeline timeline = timeline_of_run(
        run_streams({plan_, steady_, meetings(steady_), detail, {}, nullptr, slowdowns_}), detail);
    timeline.engine_reason = "transfers that share links were not looked for" + apart_text();
    return timeline;
  }

  Timeline run(Detail detail) {
    const Meetings all = find_meetings(plan_, steady_, Instantiation::every_gpu, durations_);
    const ExchangeTraffic traffic = exchange_traffic(steady_, all, durations_.topology(), plan_.cluster);
    const std::vector<bool> watched = watched_exchanges(traffic, detail);
    EngineRun run = run_streams({plan_, steady_, meetings(steady_), detail, watched, nullptr, slowdowns_});
    Contention contention =
        find_contention(durations_.topology(), {steady_, all, traffic, run.flights, run.step}, detail);
    for (const std::vector<Flight>& flights : run.flights_of_others) {
      if (flights.empty()) continue;
      const std::vector<Flight> others = with_first(flights, run.flights);
      const Contention found =
          find_contention(durations_.topology(), {steady_, all, traffic, others, run.step}, Detail::totals);
      contention.bound = std::max(contention.bound, found.bound);
      contention.overlapping = std::max(contention.overlapping, found.overlapping);
    }
    Timeline timeline = timeline_of_run(std::move(run), detail);
    timeline.contention_bound = contention.bound;
    timeline.links = std::move(contention.links);
    timeline.engine_reason =
        contention.overlapping == 0
            ? "no two transfers share a link at a time"
            : fmt::format("{} transfers overlap others on a link, worth at most {} of the step",
                          contention.overlapping, percent(contention.bound));
    timeline.engine_reason += apart_text();
    return timeline;
  }

  Picoseconds steady_step() { return step_of(steady_); }
  Picoseconds first_step() { return step_of(compile_programs(plan_, WhichStep::first, durations_)); }

 private:
  Timeline timeline_of_run(EngineRun run, Detail detail) const {
    Timeline timeline = timeline_of(plan_, std::move(run), detail);
    if (instantiation_ == Instantiation::representatives)
      for (RankTimeline& rank : timeline.ranks)
        rank.multiplicity = std::max<std::int64_t>(device_count(plan_, rank.pipeline_rank), 1);
    timeline.engine = "fast";
    return timeline;
  }
  std::string apart_text() const {
    return why_apart_.empty() ? "" : "; one GPU does not stand for all of its stage: " + why_apart_;
  }
  Picoseconds step_of(const CompiledPlan& compiled) {
    return run_streams({plan_, compiled, meetings(compiled), Detail::totals, {}, nullptr, slowdowns_}).step;
  }
  Meetings meetings(const CompiledPlan& compiled) {
    Meetings all = find_meetings(plan_, compiled, instantiation_, durations_);
    if (instantiation_ == Instantiation::representatives || slowdowns_ != nullptr) return all;
    return fold_alike_alone(compiled, durations_.topology(), std::move(all));
  }
  std::vector<bool> watched_exchanges(const ExchangeTraffic& traffic, Detail detail) const {
    std::vector<bool> watched(steady_.exchanges.size(), false);
    for (std::size_t e = 0; e < watched.size(); ++e)
      watched[e] = steady_.exchanges[e].instruction->opcode != Opcode::recv &&
                   (detail != Detail::totals ||
                    std::ranges::any_of(traffic.flows[e], [&](const NetworkExchange& exchange) {
                      return uses_shared_link(exchange.flows(), traffic.shared);
                    }));
    return watched;
  }

  const Plan& plan_;
  const CompiledPlan& steady_;
  Durations& durations_;
  const KernelSlowdowns* const slowdowns_;  // nullptr: none
  const std::string why_apart_;
  const Instantiation instantiation_;
};

// Steps in worker processes: SimGrid has one engine per process, and none in ours.
Timeline simgrid_timeline(const Plan& plan, const CompiledPlan& steady, Durations& durations,
                          const SimulateOptions& options) {
  const Detail detail = options.detail;
  std::vector<std::function<std::string()>> tasks{[&] {
    SimgridRun result = run_with_simgrid(plan, steady, durations, detail);
    Timeline timeline = timeline_of(plan, std::move(result.run), detail);
    timeline.engine = "simgrid";
    timeline.engine_reason = fmt::format("{} flows over links that can be shared, {} of them met others",
                                         result.flows, result.shared_flows);
    timeline.links = std::move(result.links);
    return to_bytes(timeline);
  }};
  if (options.times_first_step && steps_differ(plan))
    tasks.emplace_back([&] {
      const CompiledPlan first = compile_programs(plan, WhichStep::first, durations);
      Timeline timeline;
      timeline.first_step = run_with_simgrid(plan, first, durations, Detail::totals).run.step;
      return to_bytes(timeline);
    });
  const std::vector<std::string> results = run_in_workers(tasks, 0);
  Timeline timeline = timeline_from_bytes(results[0]);
  if (results.size() > 1) timeline.first_step = timeline_from_bytes(results[1]).first_step;
  return timeline;
}

// The fast engine has no other job's traffic.
bool needs_simgrid(const Plan& plan, const CompiledPlan& steady, Durations& durations) {
  if (plan.cluster.imperfections.other_jobs.empty()) return false;
  const Meetings all = find_meetings(plan, steady, Instantiation::every_gpu, durations);
  const Topology& topology = durations.topology();
  return meets_other_jobs(topology, exchange_traffic(steady, all, topology, plan.cluster));
}

void require_countable(const Plan& plan, const CompiledPlan& steady, const KernelSlowdowns& slowdowns) {
  require_countable(steady, slowdowns.most() / (1 - communication_share(plan.cluster)));
}

}  // namespace

Picoseconds step_without_contention(const Plan& plan) {
  Durations durations(plan);
  const CompiledPlan steady = compile_programs(plan, WhichStep::steady, durations);
  const KernelSlowdowns slowdowns(plan.cluster);
  require_countable(plan, steady, slowdowns);
  return FastEngine(plan, steady, durations, slowdowns).steady_step();
}

Timeline simulate(const Plan& plan, const SimulateOptions& options) {
  Durations durations(plan, options.measured);
  const CompiledPlan steady = compile_programs(plan, WhichStep::steady, durations);
  const KernelSlowdowns slowdowns(plan.cluster);
  require_countable(plan, steady, slowdowns);
  if (options.engine == EngineChoice::simgrid) {
    Timeline timeline = simgrid_timeline(plan, steady, durations, options);
    timeline.engine_reason = "asked for; " + timeline.engine_reason;
    return timeline;
  }
  if (needs_simgrid(plan, steady, durations)) {
    if (options.engine == EngineChoice::fast)
      throw std::invalid_argument(
          "imperfections.other_jobs: these move bytes over the plan's links, of which the fast engine knows "
          "nothing; --engine simgrid or auto does");
    Timeline timeline = simgrid_timeline(plan, steady, durations, options);
    timeline.engine_reason = "other jobs use the plan's links; " + timeline.engine_reason;
    return timeline;
  }
  FastEngine fast(plan, steady, durations, slowdowns);
  if (options.engine == EngineChoice::fast && !options.looks_for_contention) {
    Timeline alone = fast.run_alone(options.detail);
    if (options.times_first_step && steps_differ(plan)) alone.first_step = fast.first_step();
    return alone;
  }
  Timeline timeline = fast.run(options.detail);
  if (options.engine == EngineChoice::automatic && timeline.contention_bound > tolerated_contention) {
    const std::string bound = percent(timeline.contention_bound);
    timeline = simgrid_timeline(plan, steady, durations, options);
    timeline.engine_reason =
        fmt::format("transfers share links, for which the fast engine could be {} short; {}", bound,
                    timeline.engine_reason);
    return timeline;
  }
  if (options.times_first_step && steps_differ(plan)) timeline.first_step = fast.first_step();
  return timeline;
}

}  // namespace simrun
