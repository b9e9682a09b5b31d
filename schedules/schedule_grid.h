#pragma once

#include <string>

#include "schedules/op.h"
#include "schedules/pipeline_schedule.h"

namespace simrun {

// One line per rank, its ops in order: "0F0 0F1 0B0 0B1\n".
std::string to_text(const Schedule& schedule);

// The compute-only CSV that torch.distributed.pipelining loads (_PipelineScheduleRuntime): one row per rank,
// one op per cell; an overlapped pair is (0F8;7B3)OVERLAP_F_B. What PyTorch has no spelling for, the slice of
// 3F2s1, it reads over (3F2).
std::string to_csv(const Schedule& schedule);

// A schedule that came from a file. The shape holds what the ops imply: ranks, virtual stages, microbatches
// (both directions together), slices.
struct ScheduleFile {
  Schedule schedule;
  Placement placement = Placement::loop;
  PipelineShape shape;
  // SEND_F, RECV_F, SEND_B, RECV_B, UNSHARD, RESHARD and REDUCE_GRAD cells, which are skipped: what a compute
  // op needs from other ranks follows from the op.
  std::size_t communication_actions = 0;
};

// Reads that CSV; cells may be empty, a pair may lack OVERLAP_F_B. Two ranks that hold the same stages are
// the two directions of a bidirectional schedule. Throws ConfigError with everything that is wrong, each at
// its place in `file` (a name for messages): cells that are no op, else what check_schedule() finds, with the
// marked grid.
ScheduleFile read_schedule_csv(const std::string& text, const std::string& file);

}  // namespace simrun
