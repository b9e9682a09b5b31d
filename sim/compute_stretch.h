#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "schedules/plan.h"
#include "schedules/timeline.h"
#include "sim/durations.h"

namespace simrun {

// Of a pass: its kernels alone, more than 0; what each instruction takes alone, 0 of what is neither a kernel
// nor is_awaited(); the share of the kernels' time in which data-parallel ranks exchange beside them.
struct StretchedPass {
  Picoseconds compute = 0;
  std::vector<Picoseconds> times;
  double beside = 0;
};

// What a rank issues that compute may wait for: a collective or a transfer of tensor-, context- or
// expert-parallel ranks.
bool is_awaited(const Plan& plan, const Instruction& instruction);

// Whether compute waits for the end of an exchange, whoever reads what it brings: as the cluster or the
// framework has it.
bool blocks_compute(const Plan& plan, const Instruction& exchange);

// Whether kernels run beside what data-parallel ranks exchange and no engine slows them for it: an optimizer
// step's run one behind the other, and a GPU with communication_sms lends those multiprocessors itself.
bool slows_beside_exchanges(const Plan& plan, const Segment& segment);

// What kernels that a framework issues one behind the other take by what they take alone; at least 1.
// A GPU whose efficiencies are of training steps has what a framework loses in them.
//
// The host runs ahead of the device; where it takes longer in all than kernels and what they wait for, the
// device waits for every kernel in proportion (sim/host_stretch.h). It issues what is exchanged as well,
// and experts' products one by one where the framework does (kernels.expert_dispatch). What slows the
// framework's passes anyway hides the host's time. FSDP2 (framework.memory.fsdp) copies what it has
// gathered out of the gathered buffer, and gradients into one that is reduced, between the kernels
// (torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py, foreach_all_gather_copy_out and
// foreach_reduce_scatter_copy_in). Where a framework copies the shards that ZeRO-1 or 2 gathers
// (kernels.copies_gathered_shards) an optimizer step takes that time, too, its gathers following it: with
// many ranks the host's (nanotron, distributed.py, all_gather_coalesced, which loops over ranks and
// parameters).
double compute_stretch(const Plan& plan, const std::vector<Instruction>& instructions,
                       const StretchedPass& times);

// The same of instructions of a rank beside which nothing is exchanged, from what their kernels take alone,
// on the kind of its first GPU; 1 where none computes.
double compute_stretch(Durations& durations, std::int32_t pipeline_rank,
                       const std::vector<Instruction>& instructions);

// Throws std::range_error as to_picoseconds() does.
Picoseconds stretched(Picoseconds time, double by);

// Sums that could leave 64 bits stop at half of them: simulate() refuses such a plan by its total.
inline Picoseconds saturated_sum(Picoseconds a, Picoseconds b) {
  return std::min(std::numeric_limits<Picoseconds>::max() / 2, a + b);
}

}  // namespace simrun
