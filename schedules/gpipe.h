#pragma once

#include "schedules/op.h"

namespace simrun {

// GPipe, all forward then all backward (Huang et al. 2019), with the backwards in increasing order as
// torch.distributed.pipelining's ScheduleGPipe runs them. All `microbatches` are alive on every rank.
//
// Idle per rank with uniform stages: (ranks - 1)(F + B).
Schedule gpipe(int ranks, int microbatches);

}  // namespace simrun
