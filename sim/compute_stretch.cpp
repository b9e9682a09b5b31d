#include "sim/compute_stretch.h"

#include <algorithm>

#include "sim/kernel_cost.h"

namespace simrun {

double compute_stretch(const Plan& plan, const std::vector<Instruction>& instructions, Picoseconds compute,
                       double beside) {
  const FrameworkKernels& framework = plan.framework.kernels;
  std::int64_t launches = 0;
  if (framework.host_dispatch_s > 0)
    for (const Instruction& instruction : instructions)
      if (instruction.stream == compute_stream) launches += kernel_launches(plan, instruction);
  const double issue = static_cast<double>(launches) * framework.host_dispatch_s * 1e12;
  return std::max({1.0, framework.compute_slowdown, issue / static_cast<double>(compute),
                   1 + (framework.overlap_slowdown - 1) * beside});
}

Picoseconds stretched(Picoseconds time, double by) {
  return by == 1 ? time : to_picoseconds(static_cast<double>(time) * by * 1e-12);
}

}  // namespace simrun
