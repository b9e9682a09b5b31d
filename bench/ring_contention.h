#pragma once

#include "sim/flow_engine.h"

namespace simrun {

// How a ring all-reduce of 8 GPUs, 1 GB at 50 GB/s per port, meets strangers: two flows that never end share
// the first edge's link, and a flow of 2 GB the fourth's. As 14 steps of 8 messages, each sent when the one
// before it has come in (as NCCL's ring does), and as one flow per edge, as sim/collective_flows.h has it.
struct RingContention {
  double collective_end_s = 0;  // of its last message or edge
  double stranger_end_s = 0;    // of the flow of 2 GB
};
RingContention ring_of_messages(FlowSolver solver);
RingContention ring_of_edges(FlowSolver solver);

}  // namespace simrun
