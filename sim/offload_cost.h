#pragma once

#include <optional>

#include "schedules/plan.h"

namespace simrun {

// Seconds of an instruction that leaves the GPU: a COPY between memories, or whatever writes the host's
// memory; nothing for the others. All GPUs of a node do it at the same time, so each has
//   device <-> host   its own PCIe link, or an equal share of the host's memory bandwidth if that is less
//   host <-> NVMe     an equal share of the drives' bandwidth
//   host compute      an equal share of the host's memory bandwidth and FLOP/s, whichever takes longer
// The two directions of a link do not disturb each other, and neither do copies and the host's compute.
std::optional<double> offload_seconds(const Plan& plan, const Instruction& instruction);

}  // namespace simrun
