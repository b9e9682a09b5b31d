#include "traces/compare_imported.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "schedules/timeline.h"
#include "traces/imported_timeline.h"
#include "traces/imported_totals.h"

namespace simrun {
namespace {

using Column = double ComparedTime::*;
constexpr int unknown_kind = opcode_count;

// SEND stands for both ends: NCCL's kernels do not say which.
int kind_of(std::optional<Opcode> opcode) {
  if (!opcode) return unknown_kind;
  return static_cast<int>(*opcode == Opcode::recv ? Opcode::send : *opcode);
}

std::string kind_name(int kind) {
  if (kind == unknown_kind) return "unknown";
  const auto opcode = static_cast<Opcode>(kind);
  return opcode == Opcode::send ? "send_recv" : to_string(opcode);
}

ImportedPhase phase_of(const Instruction& instruction) {
  if (is_communication(instruction.opcode)) return ImportedPhase::communication;
  switch (instruction.phase) {
    case Phase::forward: return ImportedPhase::forward;
    case Phase::recompute: return ImportedPhase::recompute;
    case Phase::backward_input:
    case Phase::backward_weight: return ImportedPhase::backward;
    case Phase::reduction:
    case Phase::optimizer: return ImportedPhase::optimizer;
  }
  return ImportedPhase::unassigned;
}

class Tally {
 public:
  explicit Tally(const ImportedRun& run) : run_(run) {}

  void add_measured() {
    for (const ImportedRank& rank : run_.ranks) {
      for (const ImportedKernel& kernel : rank.kernels) {
        const bool is_split = kernel.kind.opcode && run_.split.contains(*kernel.kind.opcode);
        const std::int64_t ns = kernel.duration_ns - (is_split ? kernel.wait_ns : 0);
        for (ComparedTime* row : {&kinds_[kind_of(kernel.kind.opcode)], &phases_[kernel.phase]}) {
          row->measured_s += static_cast<double>(ns) * 1e-9;
          ++row->instructions;
        }
      }
      add_totals(imported_totals(rank, run_.length_ns), &ComparedTime::measured_s);
    }
  }

  // As a profiler would draw them.
  void add_predicted(const Plan& plan, const RankTimeline& rank, Picoseconds step) {
    const Program& program = plan.programs[static_cast<std::size_t>(rank.pipeline_rank)];
    std::vector<BusySpan> spans;
    for (const Lane& lane : rank.lanes) {
      const bool is_drawn = draws_host() || plan.streams[lane.stream].device == StreamDevice::gpu;
      for (const Interval& interval : lane.intervals) {
        if (!is_drawn) break;
        const Segment& segment = plan.segments[program.entries[interval.entry].segment];
        const Instruction& what = segment.instructions[interval.instruction];
        const bool talks = is_communication(what.opcode);
        const Picoseconds end = interval.start + interval.duration;
        const Picoseconds begin = talks ? interval.start - (draws_waits() ? interval.wait : 0)
                                        : std::min(interval.start + launch_gap(plan), end);
        spans.push_back({begin, end, busy_with(talks, what.opcode)});
        const Picoseconds time = talks && run_.split.contains(what.opcode) ? interval.duration : end - begin;
        kinds_[kind_of(what.opcode)].predicted_s += to_seconds(time);
        phases_[phase_of(what)].predicted_s += to_seconds(time);
      }
    }
    add_totals(totals_of(spans, step), &ComparedTime::predicted_s);
  }

  ImportedComparison comparison(double predicted_step_s) {
    ImportedComparison of;
    for (auto& [kind, row] : kinds_) {
      row.name = kind_name(kind);
      if (row.instructions > 0 || row.predicted_s > 0) of.rows.by_kind.push_back(row);
    }
    for (auto& [phase, row] : phases_) {
      row.name = to_string(phase);
      if (row.instructions > 0 || row.predicted_s > 0) of.rows.by_phase.push_back(row);
    }
    of.rows.step = {"step", predicted_step_s, static_cast<double>(run_.length_ns) * 1e-9, 0};
    for (const ImportedRank& rank : run_.ranks)
      of.rows.step.instructions += static_cast<std::int64_t>(rank.kernels.size());
    of.by_time.assign(times_.begin(), times_.end());
    of.rows.gpus = std::ssize(run_.ranks);
    return of;
  }

 private:
  // A kernel that exchanges runs from when it is launched; simrun's own traces draw what it takes alone.
  bool draws_waits() const { return run_.origin != TraceOrigin::simrun; }
  // What the host computes is no kernel to a profiler.
  bool draws_host() const { return run_.origin == TraceOrigin::simrun; }
  // simrun's own traces draw it as a part of the kernel.
  Picoseconds launch_gap(const Plan& plan) const {
    if (run_.origin == TraceOrigin::simrun) return 0;
    return static_cast<Picoseconds>(plan.cluster.gpu.kernel_launch_s * 1e12);
  }

  void add_totals(const RankTotals& totals, Column column) {
    const auto share = [&](Picoseconds time) {
      return to_seconds(time) / static_cast<double>(run_.ranks.size());
    };
    times_[0].*column += share(totals.compute);
    times_[1].*column += share(totals.exposed_total());
    times_[2].*column += share(totals.bubble_total());
  }

  const ImportedRun& run_;
  std::map<int, ComparedTime> kinds_;
  std::map<ImportedPhase, ComparedTime> phases_;
  std::array<ComparedTime, 3> times_{ComparedTime{"compute"}, ComparedTime{"exposed"}, ComparedTime{"idle"}};
};

}  // namespace

ImportedComparison compare_imported(const Plan& plan, const Timeline& predicted, const ImportedRun& run) {
  Tally tally(run);
  tally.add_measured();
  for (const std::int32_t pipeline_rank : pipeline_ranks_of(plan, run)) {
    const auto rank = std::ranges::find_if(predicted.ranks, [&](const RankTimeline& of) {
      return of.pipeline_rank == pipeline_rank && !of.lanes.empty();
    });
    if (rank != predicted.ranks.end()) tally.add_predicted(plan, *rank, predicted.step);
  }
  return tally.comparison(to_seconds(predicted.step));
}

ImportedComparison tally_imported(const ImportedRun& run) {
  Tally tally(run);
  tally.add_measured();
  return tally.comparison(0);
}

std::vector<UnknownKernel> unknown_kernels(const ImportedRun& run) {
  std::map<std::string, UnknownKernel> by_name;
  for (const ImportedRank& rank : run.ranks)
    for (const ImportedKernel& kernel : rank.kernels) {
      if (kernel.kind.opcode) continue;
      const std::string& name = rank.names[kernel.name];
      UnknownKernel& unknown = by_name[name];
      unknown.name = name;
      ++unknown.count;
      unknown.seconds += static_cast<double>(kernel.duration_ns) * 1e-9;
    }
  std::vector<UnknownKernel> sorted;
  sorted.reserve(by_name.size());
  for (auto& [name, unknown] : by_name) sorted.push_back(std::move(unknown));
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const UnknownKernel& a, const UnknownKernel& b) { return a.seconds > b.seconds; });
  return sorted;
}

}  // namespace simrun
