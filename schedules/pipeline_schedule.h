#pragma once

#include <array>
#include <string>
#include <vector>

#include "schedules/op.h"
#include "schedules/placement.h"

namespace simrun {

// Times of one stage's passes and of handing one result to another rank, in any unit, >= 0. A full backward
// (B) takes backward_input + backward_weight unless it is given; an overlapped pair forward + backward.
struct PassTimes {
  std::int64_t forward = 1;
  std::int64_t backward = 2;
  std::int64_t backward_input = 1;
  std::int64_t backward_weight = 1;
  std::int64_t overlapped = 3;  // a forward and a full backward as one step
  std::int64_t communication = 0;
  std::int64_t of(OpKind kind) const {
    return std::array{forward, backward, backward_input, backward_weight}[static_cast<std::size_t>(kind)];
  }
  bool operator==(const PassTimes&) const = default;
};

// What a pipeline schedule is a function of.
struct PipelineShape {
  int ranks = 1;
  int virtual_stages = 1;
  int microbatches = 1;  // both directions together
  // Interleaved: microbatches that a chunk runs before the next chunk's turn; 0: the schedule's default.
  int group_size = 0;
  int slices = 1;  // of the sequence (seq1f1b)
  // Only schedules that say so look at what follows.
  PassTimes times = {};                     // of every stage
  std::vector<PassTimes> stage_times = {};  // by stage, if they differ
  // (stage, microbatch) activations that may be alive on a rank, from F to W (to B if it is not split); 0:
  // the schedule's own default.
  int memory_limit = 0;
  const PassTimes& times_of(int stage) const {
    return stage_times.empty() ? times : stage_times[static_cast<std::size_t>(stage)];
  }
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
  Placement placement = Placement::loop;
  // Most (stage, microbatch) activations (seq1f1b: slices) that are ever alive on a rank, from F to W or B;
  // what the tests hold every shape against.
  int (*peak_in_flight)(const PipelineShape& shape, int rank) = nullptr;
  int default_virtual_stages = 1;  // where nobody names a number
  bool uses_times = false;         // looks at the times of the shape and at its memory_limit
  bool takes_groups = false;       // looks at its group_size
};
const std::vector<ScheduleEntry>& pipeline_schedules();

// The row with that name or alias, or nullptr.
const ScheduleEntry* find_schedule(const std::string& name);

}  // namespace simrun
