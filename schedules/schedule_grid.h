#pragma once

#include <string>

#include "schedules/op.h"

namespace simrun {

// One line per rank, its ops in order: "0F0 0F1 0B0 0B1\n".
std::string to_text(const Schedule& schedule);

// The compute-only CSV that torch.distributed.pipelining loads (_PipelineScheduleRuntime): one row per rank,
// one op per cell.
std::string to_csv(const Schedule& schedule);

}  // namespace simrun
