#pragma once

#include <string>
#include <vector>

#include "schedules/plan.h"

namespace simrun {

// What is wrong with a Plan, one sentence each; empty for a good one. Checks, in this order:
//   indices are in range, the devices are in the cluster and its links move bytes, shapes and extents agree
//   (GEMM dims, collective sizes, equal extents on both ends of a channel), every buffer instance is written
//   before it is read, freed exactly once, not touched after its FREE, and none is left over, every SEND has
//   its RECV (channel, microbatch) and every cross-stage collective all its ranks, issue sequences rise on
//   every rank, and the graph of communication instances with the ranks' issue orders is acyclic, so the plan
//   cannot deadlock under rendezvous, every (chunk, microbatch) runs forward once and backward once, in
//   causal order.
// O(entries + instructions). At most 20 sentences.
std::vector<std::string> lint(const Plan& plan);

}  // namespace simrun
