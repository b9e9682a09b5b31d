#pragma once

#include "schedules/pipeline_schedule.h"

namespace simrun {

// Looped breadth-first (Lamy-Poirier 2022, arXiv 2211.05953): GPipe over several virtual stages per rank, all
// microbatches through one chunk before the next chunk's turn. The backward takes the chunks from the last to
// the first and the microbatches of each in decreasing order.
//
// Every (chunk, microbatch) pair is alive at once. Idle per rank with uniform chunks: as interleaved_1f1b.
//
// Source: PyTorch torch/distributed/pipelining/schedules.py ScheduleLoopedBFS.
Schedule looped_bfs(const PipelineShape& shape);

}  // namespace simrun
