#pragma once

#include <span>
#include <utility>
#include <vector>

#include "models/opcode.h"
#include "sim/topology.h"

namespace simrun {

// `share` x the bytes of the exchange over `route`, in as many `connections`, each of which is one flow of
// inter_node.flow_bandwidth.
struct SharedFlow {
  Route route;
  double share = 1;
  std::uint32_t connections = 1;
};

// Bytes/s that the flow gets at most beside what its links give; infinite inside a node.
double most_rate(const Topology& topology, const SharedFlow& flow);

// The flows of a phase start together, latency_s after the phase begins; it ends with the last of them.
// Those of a collective keep pace with each other (sim/carried_traffic.h, in_step); independent ones do not.
struct FlowPhase {
  double latency_s = 0;
  std::vector<SharedFlow> flows;
  bool independent = false;
};

// One exchange as flows: phases in turn.
using ExchangeFlows = std::vector<FlowPhase>;

// Of these phases, which are moved where they may be: braces would copy their flows.
template <class... Phases>
ExchangeFlows in_turn(Phases&&... phases) {
  ExchangeFlows flows;
  flows.reserve(sizeof...(phases));
  (flows.push_back(std::forward<Phases>(phases)), ...);
  return flows;
}

// Flows of one collective over `devices` (ascending), for `bytes` = the whole tensor (the gathered, the
// unreduced, or each rank's all-to-all buffer), as `cluster.collectives` says: the way with the least time on
// idle links (sim/collective_tuner.h). One device: no phases.
ExchangeFlows collective_flows(const Topology& topology, const Cluster& cluster, Opcode opcode,
                               std::span<const std::int64_t> devices, double bytes);

// One transfer. A device to itself: nothing.
ExchangeFlows transfer_flows(const Topology& topology, std::int64_t from, std::int64_t to);

// Seconds of exchanges that begin at once and share no link with anything else: per phase the longest
// latency, and the largest of (bytes over a link) / (its bandwidth). Exact for one exchange (its flows are
// alike), and for several that are alike.
double lockstep_seconds(const Topology& topology, std::span<const ExchangeFlows> exchanges, double bytes);

}  // namespace simrun
