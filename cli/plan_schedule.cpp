#include "cli/plan_schedule.h"

#include <utility>

namespace simrun {

Schedule schedule_of(const Plan& plan) {
  Schedule schedule;
  for (const Program& program : plan.programs) {
    RankOps ops;
    for (const Entry& entry : program.entries) {
      const PassKind kind = plan.segments[entry.segment].kind;
      if (kind == PassKind::communication || kind == PassKind::step) continue;
      for (std::size_t b = 0; b < entry.binding_count; ++b) {
        const Binding& binding = program.bindings[entry.first_binding + b];
        const OpKind op = kind == PassKind::forward          ? OpKind::forward
                          : kind == PassKind::backward       ? OpKind::backward
                          : kind == PassKind::backward_input ? OpKind::backward_input
                                                             : OpKind::backward_weight;
        ops.push_back({op, plan.chunks[binding.chunk].stage, binding.microbatch});
      }
    }
    schedule.push_back(std::move(ops));
  }
  return schedule;
}

}  // namespace simrun
