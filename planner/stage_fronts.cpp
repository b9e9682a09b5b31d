#include "planner/stage_fronts.h"

#include <algorithm>

namespace simrun {

StageFronts::StageFronts(const StageGraph& stage, std::int64_t in_flight, const ChoiceLimits& limits)
    : stage_(stage),
      in_flight_(in_flight),
      tables_(limits),
      whole_(choices_of(stage, {0, stage.segments(), in_flight})),
      segments_(segments_of(whole_.choices)),
      entries_(segments_.size(), nullptr) {}

const ChainTables::Entry& StageFronts::entry_of(std::int32_t segment) {
  const ChainTables::Entry*& entry = entries_[static_cast<std::size_t>(segment)];
  if (entry == nullptr) entry = &tables_.of(whole_.choices, segments_, static_cast<std::size_t>(segment));
  return *entry;
}

StageFronts::Run& StageFronts::extended(Run& run, const ChainTables::Entry& entry) {
  std::unique_ptr<Run>& longer = run.longer[&entry];
  if (longer) return *longer;
  longer = std::make_unique<Run>();
  longer->fronts = &run == &none_ ? first_fronts(entry, tables_.limits())
                                  : next_fronts(run.fronts, entry, tables_.limits());
  longer->total = total_front(longer->fronts, tables_.limits());
  return *longer;
}

const std::vector<CostPoint>& StageFronts::of(std::int32_t first, std::int32_t last) {
  std::vector<Run*>& runs = known_[first];
  if (runs.empty()) {
    // Its first segment as the first of a stage: nothing comes from before it.
    const StageChoices begin =
        choices_of(stage_, {first, std::min(first + 2, stage_.segments()), in_flight_});
    runs.push_back(&extended(none_, tables_.of(begin.choices, segments_of(begin.choices), 0)));
  }
  const auto further = static_cast<std::size_t>(last - 1 - first);
  // Where one does not fit, no longer one does.
  while (runs.size() <= further && !runs.back()->total.empty())
    runs.push_back(&extended(*runs.back(), entry_of(first + static_cast<std::int32_t>(runs.size()))));
  return runs[std::min(further, runs.size() - 1)]->total;
}

}  // namespace simrun
