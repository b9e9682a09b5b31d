#pragma once

#include "schedules/plan.h"
#include "schedules/timeline.h"

namespace simrun {

// Bytes of one collective (the whole tensor: the gathered, the unreduced or each rank's all-to-all buffer) or
// of one transfer: the sum over the instruction's (coalesced) buffers.
double communicated_bytes(const Plan& plan, const Instruction& instruction);

// Time of a communication instruction as `pipeline_rank` issues it, until the slowest instance of its group,
// or of its transfers, is done (sim/exchange_costs.h). Durations gives the same without starting afresh.
Picoseconds communication_time(const Plan& plan, std::int32_t pipeline_rank, const Instruction& instruction);

}  // namespace simrun
