#pragma once

#include <span>
#include <vector>

#include "models/opcode.h"
#include "sim/topology.h"

namespace simrun {

// `share` x the bytes of the exchange over `route`.
struct SharedFlow {
  Route route;
  double share = 1;
};

// The flows of a phase start together, latency_s after the phase begins; it ends with the last of them.
struct FlowPhase {
  double latency_s = 0;
  std::vector<SharedFlow> flows;
};

// One exchange as flows: phases in turn.
using ExchangeFlows = std::vector<FlowPhase>;

// Flows of one collective over `devices` (ascending), for `bytes` = the whole tensor (the gathered, the
// unreduced, or each rank's all-to-all buffer). One flow per ring edge; n ranks, k on every of N nodes:
//   ring       edges carry (n-1)/n of the bytes (all-reduce twice that; broadcast all of it, and nothing back
//              to its first rank) at n-1 hops of latency (twice for all-reduce). Over several nodes: k rings,
//              ring r crossing between nodes over the NIC of rank r of each node with 1/k of it; inside a
//              node each rank's edge to the next carries the (k-1)/k of it that stay inside. k is the fewest
//              ranks on a node where they differ: the edges of the other nodes on which no ring enters carry
//              all of it. N of the hops cross nodes (N-1 with one rank per node, where no hop stays inside)
//   two-level  inside each node over k ranks, then between nodes for each k over N ranks with bytes / k;
//              all-reduce: reduce-scatter inside, all-reduce across, all-gather inside
//   pairwise   all-to-all: 1/n of the bytes to every other rank; all those between two nodes from one rank
//              are one flow (to the rank of the same number there), and so are all those within its node.
//              n-1 messages of latency. Above 2^22 (rank, node) pairs those to all other nodes are one flow,
//              to the next node
// Inside one node an exchange that was measured (Cluster::measured) takes its latency, and its edges to the
// next ranks carry as much as takes its time.
// Returns the faster of ring and two-level on idle links. One device: no phases.
ExchangeFlows collective_flows(const Topology& topology, Opcode opcode, std::span<const std::int64_t> devices,
                               double bytes);

// The two that collective_flows chooses from: the shares do not depend on the bytes. An all-to-all has one
// way, which ring_flows returns. two_level_flows is empty unless several nodes have the same number of ranks,
// two or more, and the collective is an all-gather, reduce-scatter or all-reduce.
ExchangeFlows ring_flows(const Topology& topology, Opcode opcode, std::span<const std::int64_t> devices);
ExchangeFlows two_level_flows(const Topology& topology, Opcode opcode, std::span<const std::int64_t> devices);

// One transfer. A device to itself: nothing.
ExchangeFlows transfer_flows(const Topology& topology, std::int64_t from, std::int64_t to);

// Seconds of exchanges that begin at once and share no link with anything else: per phase the longest
// latency, and the largest of (bytes over a link) / (its bandwidth). Exact for one exchange (its flows are
// alike), and for several that are alike.
double lockstep_seconds(const Topology& topology, std::span<const ExchangeFlows> exchanges, double bytes);

}  // namespace simrun
