#pragma once

#include <string>
#include <vector>

#include "schedules/op.h"

namespace simrun {

// What a pipeline schedule is a function of. Stage s of ranks x virtual_stages lies on rank s % ranks.
struct PipelineShape {
  int ranks = 1;
  int virtual_stages = 1;
  int microbatches = 1;
  // Interleaved: microbatches that a chunk runs before the next chunk's turn; 0: the default, `ranks`.
  int group_size = 0;
};

// One row per schedule; adding one is a file, a row and a test.
struct ScheduleEntry {
  std::string name;
  std::vector<std::string> aliases;
  std::string description;
  // "" if the rule accepts the shape, else the rule that it breaks, with numbers and the nearest shapes that
  // work.
  std::string (*refusal)(const PipelineShape& shape);
  // REQUIRES: refusal(shape).empty()
  Schedule (*build)(const PipelineShape& shape);
};
const std::vector<ScheduleEntry>& pipeline_schedules();

// The row with that name or alias, or nullptr.
const ScheduleEntry* find_schedule(const std::string& name);

}  // namespace simrun
