#include "schedules/pipeline_schedule.h"

#include <fmt/format.h>

#include <algorithm>

#include "schedules/gpipe.h"
#include "schedules/interleaved_1f1b.h"
#include "schedules/one_f_one_b.h"

namespace simrun {

static std::string positive_refusal(const PipelineShape& shape) {
  if (shape.ranks >= 1 && shape.virtual_stages >= 1 && shape.microbatches >= 1 && shape.group_size >= 0)
    return "";
  return fmt::format(
      "a pipeline needs at least 1 rank, 1 virtual stage and 1 microbatch, not {}, {} and {} (group size {})",
      shape.ranks, shape.virtual_stages, shape.microbatches, shape.group_size);
}

static std::string one_stage_refusal(const PipelineShape& shape) {
  if (std::string refusal = positive_refusal(shape); !refusal.empty()) return refusal;
  if (shape.virtual_stages > 1)
    return fmt::format("this schedule runs 1 virtual stage per rank, not {}; interleaved_1f1b runs several",
                       shape.virtual_stages);
  return "";
}

static std::string interleaved_or_positive_refusal(const PipelineShape& shape) {
  if (std::string refusal = positive_refusal(shape); !refusal.empty()) return refusal;
  return interleaved_refusal(shape);
}

const std::vector<ScheduleEntry>& pipeline_schedules() {
  static const std::vector<ScheduleEntry> table = {
      {"gpipe",
       {"afab"},
       "all forward, then all backward; every microbatch is alive at once",
       one_stage_refusal,
       [](const PipelineShape& shape) { return gpipe(shape.ranks, shape.microbatches); }},
      {"1f1b",
       {},
       "one forward, one backward; at most as many microbatches alive as pipeline ranks",
       one_stage_refusal,
       [](const PipelineShape& shape) { return one_f_one_b(shape.ranks, shape.microbatches); }},
      {"interleaved_1f1b",
       {},
       "1f1b over several virtual stages per rank; the bubble shrinks by their number",
       interleaved_or_positive_refusal,
       interleaved_1f1b},
  };
  return table;
}

const ScheduleEntry* find_schedule(const std::string& name) {
  for (const ScheduleEntry& entry : pipeline_schedules())
    if (entry.name == name ||
        std::find(entry.aliases.begin(), entry.aliases.end(), name) != entry.aliases.end())
      return &entry;
  return nullptr;
}

}  // namespace simrun
