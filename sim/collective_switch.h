#pragma once

#include "sim/collective_steps.h"

namespace simrun {

// Collectives whose sums switches form. k ranks on each of N nodes, with a NIC each; one phase.
//
//   nvls       one node (NVLink SHARP): the switch reads a rank's share of the sum from all of them and
//   writes
//              it to all. A rank sends and receives (k+1)/k of the bytes in an all-reduce; it sends 1/k and
//              receives all in an all-gather, and the other way in a reduce-scatter. Several nodes,
//              all-reduce: the rank's share goes to the fabric's switches and back, 1/k on each NIC. One step
//              inside, one between
//   nvls_tree  all-reduce over several nodes: the same inside, double binary trees between
//   (sim/collective_tree.h):
//              up to 2/k on each NIC; one step inside and 2 log2(N) between
//   collnet    all-reduce over several nodes, sums between them formed by the fabric (InfiniBand SHARP): 1/k
//   on
//              each NIC. A rank sends 2(k-1)/k inside its node: `direct` to every other, in two steps (and
//              rank_s for each other rank, twice), `chain` along chains, in 2(k-1) steps
//
// A leaf forwards one sum of its nodes: a ring over the nodes loads leaf uplinks just so. Empty where the
// collective or the group is another.
ExchangeFlows nvls_flows(const Topology& topology, Opcode opcode, Ranks devices, const StepCosts& costs);
ExchangeFlows nvls_tree_flows(const Topology& topology, Opcode opcode, Ranks devices, const StepCosts& costs);
ExchangeFlows collnet_direct_flows(const Topology& topology, Opcode opcode, Ranks devices,
                                   const StepCosts& costs);
ExchangeFlows collnet_chain_flows(const Topology& topology, Opcode opcode, Ranks devices,
                                  const StepCosts& costs);

}  // namespace simrun
