#include "validation/layer_time.h"

#include <algorithm>
#include <map>

namespace simrun {

double seconds_of_layer(const Plan& plan, const Timeline& timeline) {
  struct Span {
    Picoseconds first = 0, end = 0;
  };
  std::map<Index, Span> spans;  // by entry
  const RankTimeline& rank = timeline.ranks.front();
  const Program& program = plan.programs[static_cast<std::size_t>(rank.pipeline_rank)];
  std::int64_t forwards = 0;
  for (const Lane& lane : rank.lanes)
    for (const Interval& of : lane.intervals) {
      const Segment& segment = plan.segments[program.entries[of.entry].segment];
      const Instruction& what = segment.instructions[of.instruction];
      if (what.layer != 0 || what.phase == Phase::reduction || what.phase == Phase::optimizer) continue;
      const auto [span, is_new] = spans.try_emplace(of.entry, Span{of.start, of.start + of.duration});
      span->second.first = std::min(span->second.first, of.start);
      span->second.end = std::max(span->second.end, of.start + of.duration);
      if (is_new && segment.kind == PassKind::forward) ++forwards;
    }
  Picoseconds sum = 0;
  for (const auto& [entry, span] : spans) sum += span.end - span.first;
  return forwards == 0 ? 0 : to_seconds(sum) / static_cast<double>(forwards);
}

}  // namespace simrun
