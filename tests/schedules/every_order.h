#pragma once

#include "schedules/pipeline_schedule.h"

namespace simrun {

// The least makespan of all orders of a tiny shape, by trying every one: each rank's passes in every order in
// which a pass is behind those of its own microbatch and stage and no more than memory_limit (0: any number)
// activations are alive. The slow reference for bounds and searches.
struct EveryOrder {
  Placement placement = Placement::loop;
  bool split = true;               // I and W; else B
  bool first_in_first_out = true;  // microbatches in ascending order in every pass of a stage
};
std::int64_t shortest_makespan(const PipelineShape& shape, const EveryOrder& options);

}  // namespace simrun
