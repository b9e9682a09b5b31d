#include "cli/plan_schedule.h"

#include <utility>

namespace simrun {
namespace {

OpKind op_kind(PassKind kind, std::size_t binding) {
  switch (kind) {
    case PassKind::overlapped: return binding == 0 ? OpKind::forward : OpKind::backward;
    case PassKind::backward: return OpKind::backward;
    case PassKind::backward_input: return OpKind::backward_input;
    case PassKind::backward_weight: return OpKind::backward_weight;
    default: return OpKind::forward;
  }
}

}  // namespace

Schedule schedule_of(const Plan& plan) {
  Schedule schedule;
  for (const Program& program : plan.programs) {
    RankOps ops;
    for (const Entry& entry : program.entries) {
      const PassKind kind = plan.segments[entry.segment].kind;
      if (kind == PassKind::communication || kind == PassKind::step) continue;
      for (std::size_t b = 0; b < entry.binding_count; ++b) {
        const Binding& binding = program.bindings[entry.first_binding + b];
        Op op{op_kind(kind, b), plan.chunks[binding.chunk].stage, binding.microbatch};
        op.direction = binding.direction;
        // A plan numbers the microbatches of both directions together.
        if (op.direction == Direction::up)
          op.microbatch -= static_cast<std::int32_t>(plan.job.microbatches / 2);
        op.overlaps_next = kind == PassKind::overlapped && b == 0;
        ops.push_back(op);
      }
    }
    schedule.push_back(std::move(ops));
  }
  return schedule;
}

}  // namespace simrun
