#pragma once

#include <optional>
#include <string>

#include "schedules/pipeline_schedule.h"

namespace simrun {

// The flags of a schedule without a model, as they were written.
struct ScheduleFlags {
  std::optional<std::string> schedule;  // a name, "auto", "all", or a CSV file
  std::optional<std::string> ranks;
  std::optional<std::string> microbatches;
  std::optional<std::string> virtual_stages;
  std::optional<std::string> slices;
  std::optional<std::string> group_size;
  std::optional<std::string> costs;
  std::optional<std::string> communication;
  std::optional<std::string> memory_limit;
  std::optional<std::string> search_effort;
  bool dry = false;
};

// What they ask for. Sizes that were not given are 0.
struct ScheduleRequest {
  std::string schedule;
  bool from_file = false;
  PipelineShape shape;             // times in ticks
  std::int64_t search_effort = 0;  // of auto, in passes of all orders tried
};

// Throws ConfigError with everything that is wrong.
ScheduleRequest read_schedule_flags(const ScheduleFlags& flags);

}  // namespace simrun
