#include "cli/page_detail.h"

namespace simrun {

namespace {

constexpr std::int64_t instruction_limit = 400'000;

}  // namespace

std::int64_t instruction_instances(const Plan& plan) {
  std::int64_t total = 0;
  for (const Program& program : plan.programs)
    for (const Entry& entry : program.entries)
      total += static_cast<std::int64_t>(plan.segments[entry.segment].instructions.size());
  return total;
}

Detail page_detail(const Plan& plan) {
  return instruction_instances(plan) <= instruction_limit ? Detail::instructions : Detail::passes;
}

}  // namespace simrun
