#pragma once

#include "sim/collective_flows.h"

// Which algorithm and protocol carry out a collective.
namespace simrun {

struct TunedCollective {
  CollectiveChoice choice;
  ExchangeFlows flows;  // no phases over one device
};

// The ways in which a group can carry out a collective, as `cluster.collectives` allows. Inside a node an
// exchange that was measured (Cluster::measured) has one, called ring. Of the algorithms whose costs are
// known, those that the cluster's switches and the group's places allow, and the forced ones if one of these
// is possible (otherwise a ring, with the forced protocol if it has it); where nothing is known ring and
// two_level. Never empty over two devices; all-to-alls are `direct` unless told otherwise. Where a pace
// limits the rate or takes only a share of it, flows have as much more to carry.
std::vector<TunedCollective> collective_ways(const Topology& topology, const Cluster& cluster, Opcode opcode,
                                             std::span<const std::int64_t> devices);

// The flows of one of them.
ExchangeFlows flows_of_way(const Topology& topology, const Cluster& cluster, Opcode opcode,
                           std::span<const std::int64_t> devices, CollectiveChoice way);

// The one with the least time on idle links, as NCCL chooses; the first of equals.
TunedCollective tuned_collective(const Topology& topology, const Cluster& cluster, Opcode opcode,
                                 std::span<const std::int64_t> devices, double bytes);

}  // namespace simrun
