#pragma once

#include "sim/collective_steps.h"

namespace simrun {

// All-to-alls: every rank has 1/n of its bytes for every rank.
//
//   direct        1/n of the bytes to every other rank; all those between two nodes from one rank are one
//   flow
//                 (to the rank of the same number there), and so are all those within its node. n-1 messages
//                 of latency. Above 2^22 (rank, node) pairs those to all other nodes are one flow, to the
//                 next
//   hierarchical  what goes to another node goes to its rank of the same number first (one rail), and from
//                 there over NVLink, in small chunks: one phase. (N-1)/N of the bytes over a NIC, (k-1)/k
//                 inside; N-1 + k-1 messages. Tokens for several experts go to a node once (DeepSeek-V3,
//                 arXiv 2412.19437, section 3.2.2): `crossing` is the share of copies that is left. Empty
//                 unless several nodes have the same number of ranks, two or more
ExchangeFlows direct_all_to_all_flows(const Topology& topology, Ranks devices, const StepCosts& costs = {});
ExchangeFlows hierarchical_all_to_all_flows(const Topology& topology, Ranks devices, double crossing,
                                            const StepCosts& costs = {});

// The share of copies of tokens that cross nodes if a token goes once to each node that has one of its
// `experts`, evenly spread over `nodes` nodes or over at most `limit` of them (0: all): the expected number
// of different nodes, N (1 - (1 - 1/N)^experts), or the limit, by the experts. 1 where experts is 0.
double crossing_share(double nodes, double experts, double limit);

}  // namespace simrun
