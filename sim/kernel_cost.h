#pragma once

#include "schedules/plan.h"
#include "schedules/timeline.h"
#include "sim/gemm_cost.h"

namespace simrun {

// What one kernel does: matrix FLOPs as the device executes them and bytes to and from its memory.
struct KernelWork {
  double flops = 0;
  double bytes = 0;
  bool operator==(const KernelWork&) const = default;
};

// Work of an instruction that is not a communication. Flash attention counts only what its mask leaves;
// unfused attention is several kernels, here summed.
KernelWork kernel_work(const Plan& plan, const Instruction& instruction);

// Time of a compute instruction on plan.cluster.gpu: max(compute, memory) + launch. 0 for FREE and
// INIT. What the host of a framework takes to issue it, where that is longer, is sim/compute_stretch.h's.
Picoseconds kernel_time(const Plan& plan, const Instruction& instruction);

// Kernels that a framework's host issues for a compute instruction. 0 for FREE and INIT.
std::int64_t kernel_launches(const Plan& plan, const Instruction& instruction);

constexpr double longest_instruction_s = 1e5;  // sums of longer ones could leave 64 bits: 2^63 ps = 106 days

// Throws std::range_error for what is no time, or not shorter than longest_instruction_s.
Picoseconds to_picoseconds(double seconds);

}  // namespace simrun
