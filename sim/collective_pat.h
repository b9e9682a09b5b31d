#pragma once

#include "sim/collective_steps.h"

namespace simrun {

// Parallel aggregated trees (Jeaugey 2025, "PAT: a new algorithm for all-gather and reduce-scatter operations
// at scale", arXiv 2506.20252), one rank on each of N nodes: ceil(log2 N) phases. In an all-gather every rank
// sends first its own part N/2 places on, then two parts N/4 on, at last half of all to the next: what goes
// far is small. (N-1)/N of the bytes over each NIC in all; a reduce-scatter is the same backwards. rank_s for
// every rank, once. Empty for other collectives and groups.
ExchangeFlows pat_flows(const Topology& topology, Opcode opcode, Ranks devices, const StepCosts& costs);

}  // namespace simrun
