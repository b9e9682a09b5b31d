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

const SegmentFronts& StageFronts::from(std::int32_t first) {
  const auto [known, is_new] = known_.try_emplace(first, segments_.size());
  SegmentFronts& fronts = known->second;
  if (!is_new) return fronts;
  // Its first segment as the first of a stage: nothing comes from before it.
  const StageChoices begin = choices_of(stage_, {first, std::min(first + 2, stage_.segments()), in_flight_});
  Run* run = &extended(none_, tables_.of(begin.choices, segments_of(begin.choices), 0));
  fronts[static_cast<std::size_t>(first)] = run->total;
  for (std::int32_t segment = first + 1; segment < stage_.segments(); ++segment) {
    if (run->total.empty()) break;  // nor does a longer one fit
    run = &extended(*run, entry_of(segment));
    fronts[static_cast<std::size_t>(segment)] = run->total;
  }
  return fronts;
}

}  // namespace simrun
