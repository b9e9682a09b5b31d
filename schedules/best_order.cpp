#include <fmt/format.h>

#include <limits>

#include "schedules/accepted_sizes.h"
#include "schedules/schedule_search.h"
#include "schedules/tuned_schedule.h"

namespace simrun {

std::string best_order_refusal(const PipelineShape& shape, const SearchOptions& options) {
  if (std::string refusal = whole_sequences_refusal(shape); !refusal.empty()) return refusal;
  if (shape.memory_limit > 0 && shape.memory_limit < shape.virtual_stages)
    return fmt::format(
        "auto holds an activation of each of a rank's {} stages at once: the memory limit must be at least "
        "{}, not {}",
        shape.virtual_stages, shape.virtual_stages, shape.memory_limit);
  const std::int64_t stages = std::int64_t{shape.ranks} * shape.virtual_stages;
  const std::int64_t passes = 3 * stages * few_microbatches(shape).microbatches;
  constexpr std::int64_t least_orders = 20;
  if (passes * least_orders <= options.effort) return "";
  constexpr std::int64_t million = 1'000'000;
  return fmt::format("auto tries {} orders or more, here of {} passes each: that is an effort of {} million",
                     least_orders, passes, (passes * least_orders + million - 1) / million);
}

SearchResult best_order(const PipelineShape& shape, const SearchOptions& options) {
  std::vector<Placement> placements = {Placement::loop};
  if (shape.virtual_stages % 2 == 0) placements.insert(placements.begin(), Placement::wave);
  SearchResult best;
  std::int64_t bound = std::numeric_limits<std::int64_t>::max();
  SearchOptions each = options;
  each.effort = options.effort / static_cast<std::int64_t>(placements.size());
  for (const Placement placement : placements) {
    const std::int64_t own_bound = makespan_lower_bound(shape, placement);
    bound = std::min(bound, own_bound);
    if (!best.schedule.empty() && best.makespan <= own_bound) continue;
    each.placement = placement;
    SearchResult found = search_schedule(shape, each);
    if (best.schedule.empty() || found.makespan < best.makespan) best = std::move(found);
  }
  best.lower_bound = bound;
  return best;
}

}  // namespace simrun
