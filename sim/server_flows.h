#pragma once

#include <span>

#include "schedules/plan.h"
#include "sim/collective_flows.h"

namespace simrun {

// Flows of a PUSH or PULL over `devices`, the members of its group in ascending order, for `bytes` = the
// whole buffer. One phase and one latency: a worker sends to all servers at once.
//
//   PUSH   1/k of the bytes from every worker to each of the k servers; nothing from a device to itself
//   PULL   the same routes the other way
//
// So n dedicated workers put n/k x bytes on the link into each server (incast), and a NIC whose GPU is one of
// n workers and of n servers sends and receives (n-1)/n x bytes in either: over a step as much as in a
// ring all-reduce (Jiang et al. 2020, BytePS, OSDI, section 3.1).
//
// Above 2^16 (worker, server) pairs a worker's flows to all servers of one node are one, to one of them by
// turns: the same bytes on every link where workers are a multiple of a node's servers.
ExchangeFlows server_flows(const Topology& topology, Opcode opcode, const ServerGroup& servers,
                           std::span<const std::int64_t> devices);

// One worker's part of it.
ExchangeFlows one_sided_flows(const Topology& topology, Opcode opcode, std::int64_t worker,
                              std::span<const std::int64_t> servers);

// The devices of a group that are servers, and those that are workers.
std::vector<std::int64_t> server_devices(const ServerGroup& servers, std::span<const std::int64_t> devices);
std::vector<std::int64_t> worker_devices(const ServerGroup& servers, std::span<const std::int64_t> devices);

}  // namespace simrun
