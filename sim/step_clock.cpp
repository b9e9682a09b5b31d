#include "sim/step_clock.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "configs/node_groups.h"
#include "schedules/timeline.h"
#include "sim/kernel_cost.h"

namespace simrun {
namespace {

double power_of(const Plan& plan, const Instruction& instruction) {
  const KernelPower& power = plan.cluster.gpu.kernels.power;
  const int generation = plan.framework.kernels.flash_attention;
  switch (instruction.opcode) {
    case Opcode::gemm:
    case Opcode::conv:
    case Opcode::lstm:
    case Opcode::lstm_backward:
    case Opcode::scan:
    case Opcode::scan_backward: return 1;
    case Opcode::attention:
    case Opcode::attention_backward:
      return instruction.function == Function::unfused || generation == 0
                 ? 1
                 : power.flash[static_cast<std::size_t>(generation - 1)];
    default: return power.other;
  }
}

}  // namespace

double power_of_passes(const Plan& plan) {
  const Program& program = plan.programs[(plan.programs.size() - 1) / 2];
  std::set<Index> passes;
  for (const Entry& entry : program.entries)
    if (plan.segments[entry.segment].kind != PassKind::step) passes.insert(entry.segment);
  double seconds = 0, drawn = 0;
  for (const Index pass : passes)
    for (const Instruction& instruction : plan.segments[pass].instructions) {
      if (instruction.stream != compute_stream || is_communication(instruction.opcode)) continue;
      const double taken = to_seconds(kernel_time(plan, instruction));
      seconds += taken;
      drawn += taken * power_of(plan, instruction);
    }
  return seconds > 0 ? drawn / seconds : 1;
}

double kept_share(const GpuKernels& kernels, double power) {
  const double by_fitted = std::max(kernels.power.fitted / power, 1.0);
  return std::min(kernels.sustained * std::cbrt(by_fitted), 1.0);
}

Plan with_step_clock(Plan plan) {
  GpuKernels& kernels = plan.cluster.gpu.kernels;
  if (kernels.power != KernelPower{} && kernels.sustained < 1 && !plan.programs.empty() &&
      GpuKinds(plan.cluster).count() == 1)
    kernels.sustained = kept_share(kernels, power_of_passes(plan));
  return plan;
}

}  // namespace simrun
