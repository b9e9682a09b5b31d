#pragma once

#include <cstdint>

#include "schedules/plan.h"

namespace simrun {

// Bytes of a GPU that NCCL holds for the groups that its program communicates over.
struct CommunicatorMemory {
  std::int64_t communicators = 0;
  std::int64_t bytes = 0;
  bool operator==(const CommunicatorMemory&) const = default;
};

// Each group of two ranks or more is one communicator, and so are the pipeline ranks that send to each other.
// A channel has one receiving buffer (all protocols: 4 MiB Simple, 4.7 MiB LL128, 0.5 MiB LL, as one
// allocation of 10 MiB) per connection: one of the ring, and of n ranks' two trees 2 (n - 1) / n on average.
//
//   collectives of n ranks: communicator + channels x buffer x (1 + 2 (n - 1) / n)
//   all-to-all, transfers:  communicator + channels x buffer x peers
//
// Within a node there are two channels per NVLink, at most as many as the framework says. Across nodes a
// group has no more than 2 channels per NIC that is near its members of a node, and a transfer
// 2. The figures are those of NVIDIA/nccl issue 964 (4 A100: 544 MiB for 2 ranks, 688 for more; 24 channels)
// and issue 1685 (all-to-all of 8 H100: 32 channels to every peer).
CommunicatorMemory communicator_memory(const Plan& plan, const Program& program, std::int64_t local_gpu);

}  // namespace simrun
