#pragma once

#include "sim/collective_steps.h"

namespace simrun {

// Rings, for every collective but an all-to-all. One flow per ring edge; n ranks, k on every of N nodes:
//   ring       edges carry (n-1)/n of the bytes (all-reduce twice that; broadcast all of it, and nothing back
//              to its first rank) at n-1 steps of latency (twice for all-reduce). Over several nodes: k
//              rings, ring r crossing between nodes over the NIC of rank r of each node with 1/k of it;
//              inside a node each rank's edge to the next carries the (k-1)/k of it that stay inside. k is
//              the fewest ranks on a node where they differ: the edges of the other nodes on which no ring
//              enters carry all of it. N of the steps cross nodes (N-1 with one rank per node, where no step
//              stays inside)
//   two-level  inside each node over k ranks, then between nodes for each k over N ranks with bytes / k;
//              all-reduce: reduce-scatter inside, all-reduce across, all-gather inside. Empty unless several
//              nodes have the same number of ranks, two or more, and for a broadcast
ExchangeFlows ring_flows(const Topology& topology, Opcode opcode, Ranks devices, const StepCosts& costs = {});
ExchangeFlows two_level_flows(const Topology& topology, Opcode opcode, Ranks devices,
                              const StepCosts& costs = {});

}  // namespace simrun
