#include "schedules/measured_comparison.h"

#include <algorithm>
#include <array>
#include <map>

#include "schedules/timeline.h"

namespace simrun {
namespace {

struct Tables {
  std::map<Opcode, ComparedTime> by_kind;
  std::map<Phase, ComparedTime> by_phase;
};

using Seconds = double ComparedTime::*;

void add(const Plan& plan, const Timeline& timeline, Seconds column, Tables& tables) {
  for (const RankTimeline& rank : timeline.ranks) {
    const Program& program = plan.programs[static_cast<std::size_t>(rank.pipeline_rank)];
    for (const Lane& lane : rank.lanes)
      for (const Interval& interval : lane.intervals) {
        const Segment& segment = plan.segments[program.entries[interval.entry].segment];
        const Instruction& what = segment.instructions[interval.instruction];
        const double seconds = to_seconds(interval.duration);
        for (ComparedTime* row : {&tables.by_kind[what.opcode], &tables.by_phase[what.phase]}) {
          row->*column += seconds;
          if (column == &ComparedTime::measured_s) ++row->instructions;
        }
      }
  }
}

template <typename Key>
std::vector<ComparedTime> rows_of(const std::map<Key, ComparedTime>& table) {
  std::vector<ComparedTime> rows;
  for (const auto& [key, row] : table) {
    rows.push_back(row);
    rows.back().name = to_string(key);
  }
  return rows;
}

}  // namespace

double ComparedTime::error() const { return measured_s > 0 ? (predicted_s - measured_s) / measured_s : 0; }

const char* to_string(Phase phase) {
  static constexpr std::array<const char*, 6> names{"forward",         "recompute", "backward_input",
                                                    "backward_weight", "reduction", "optimizer"};
  return names.at(static_cast<std::size_t>(phase));
}

MeasuredComparison compare_measured(const Plan& plan, const Timeline& predicted, const Timeline& measured) {
  Tables tables;
  add(plan, predicted, &ComparedTime::predicted_s, tables);
  add(plan, measured, &ComparedTime::measured_s, tables);
  MeasuredComparison comparison;
  comparison.by_kind = rows_of(tables.by_kind);
  comparison.by_phase = rows_of(tables.by_phase);
  comparison.step = {"step", to_seconds(predicted.step), to_seconds(measured.step), 0};
  for (const ComparedTime& row : comparison.by_kind) comparison.step.instructions += row.instructions;
  comparison.gpus =
      std::ranges::count_if(measured.ranks, [](const RankTimeline& of) { return !of.lanes.empty(); });
  return comparison;
}

}  // namespace simrun
