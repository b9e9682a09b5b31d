#pragma once

#include <vector>

#include "schedules/plan.h"
#include "schedules/timeline.h"

namespace simrun {

// How the ranks of one communication group lie on nodes.
struct GroupShape {
  std::int64_t ranks = 1;
  std::int64_t nodes = 1;
  std::int64_t per_node = 1;  // fewest on any of its nodes
  // clang-tidy 14 takes the defaulted comparison for a null pointer.
  auto operator<=>(const GroupShape&) const = default;  // NOLINT(modernize-use-nullptr)
};

// The different shapes of all instances of a group over a pipeline rank's devices (device d is on node d /
// gpus_per_node).
std::vector<GroupShape> group_shapes(const Plan& plan, std::int32_t pipeline_rank, const Group& group);

// Seconds of one collective, alone on its links. `bytes` is the whole tensor: the gathered, the unreduced or
// each rank's all-to-all buffer. With n ranks, k per node on N nodes, B = bandwidth x efficiency:
//   ring       all-gather, reduce-scatter (n-1)/n bytes / B + n-1 hops; all-reduce twice that; broadcast
//   bytes / B + n-1 hops.
//              B across nodes = min(B_intra, k B_inter): k rings, each through another NIC. N of the hops
//              cross nodes.
//   two-level  within the node over k ranks, then between nodes over N ranks with bytes / k each
//   pairwise   all-to-all: the larger of the shares for own node and for other nodes, over their links
// All-gather, reduce-scatter and all-reduce take the cheaper of ring and two-level.
double collective_seconds(const Cluster& cluster, Opcode opcode, const GroupShape& shape, double bytes);

// Whether any rank of the stage and its peer of this SEND or RECV are on different nodes.
bool crosses_nodes(const Plan& plan, std::int32_t pipeline_rank, const Communication& communication);

// Seconds of one transfer of `bytes` between two ranks: latency + bytes / (bandwidth x efficiency) of its
// link.
double transfer_seconds(const Cluster& cluster, bool crosses, double bytes);

// Bytes that collective_seconds wants, or a transfer's: the sum over the instruction's (coalesced) buffers.
double communicated_bytes(const Plan& plan, const Instruction& instruction);

// Time of a communication instruction as `pipeline_rank` issues it: the slowest instance of its group, or of
// its transfers.
Picoseconds communication_time(const Plan& plan, std::int32_t pipeline_rank, const Instruction& instruction);

}  // namespace simrun
