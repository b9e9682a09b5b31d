#include "schedules/searched_schedules.h"

#include <fmt/format.h>

#include <algorithm>

#include "schedules/accepted_sizes.h"
#include "schedules/schedule_search.h"

namespace simrun {
namespace {

int limit_or(const PipelineShape& shape, int standard) {
  return shape.memory_limit > 0 ? shape.memory_limit : standard;
}

std::string zb_auto_refusal(const PipelineShape& shape) { return one_stage_refusal(shape); }

std::string v_auto_refusal(const PipelineShape& shape) {
  if (std::string refusal = two_stages_refusal(shape); !refusal.empty()) return refusal;
  if (shape.memory_limit != 1) return "";
  return "v_auto holds an activation of either stage of a rank at once: the memory limit must be at least 2, "
         "not 1";
}

int all_or(const PipelineShape& shape, int limit) {
  return std::min(shape.microbatches * shape.virtual_stages, limit);
}

}  // namespace

std::vector<ScheduleEntry> searched_schedules() {
  return {
      {.name = "zb_h2",
       .aliases = {"zb2p"},
       .description = "backward split, twice 1f1b's memory; no bubble inside a rank if F = I = W",
       .refusal = one_stage_refusal,
       .build = zb_h2,
       .peak_in_flight = [](const PipelineShape& shape, int) { return all_or(shape, 2 * shape.ranks); }},
      {.name = "zb_auto",
       .aliases = {},
       .description = "backward split, for the given pass times and memory limit",
       .refusal = zb_auto_refusal,
       .build = zb_auto,
       .peak_in_flight = [](const PipelineShape& shape,
                            int) { return all_or(shape, limit_or(shape, 2 * shape.ranks)); },
       .uses_times = true},
      {.name = "v_half",
       .aliases = {},
       .description = "two stages per rank in a V, backward split, about half of 1f1b's memory",
       .refusal = two_stages_refusal,
       .build = v_half,
       .placement = Placement::wave,
       .peak_in_flight = [](const PipelineShape& shape,
                            int) { return all_or(shape, v_half_memory(shape.ranks)); },
       .default_virtual_stages = 2},
      {.name = "v_min",
       .aliases = {},
       .description = "two stages per rank in a V, backward split, about a third of 1f1b's memory",
       .refusal = two_stages_refusal,
       .build = v_min,
       .placement = Placement::wave,
       .peak_in_flight = [](const PipelineShape& shape,
                            int) { return all_or(shape, v_min_memory(shape.ranks)); },
       .default_virtual_stages = 2},
      {.name = "v_auto",
       .aliases = {},
       .description = "two stages per rank in a V, for the given pass times and memory limit",
       .refusal = v_auto_refusal,
       .build = v_auto,
       .placement = Placement::wave,
       .peak_in_flight = [](const PipelineShape& shape,
                            int) { return all_or(shape, limit_or(shape, 2 * shape.ranks)); },
       .default_virtual_stages = 2,
       .uses_times = true},
  };
}

}  // namespace simrun
