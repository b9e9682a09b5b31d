#include "sim/activation_limit.h"

#include <algorithm>
#include <map>
#include <utility>

#include "sim/held_memory.h"
#include "sim/memory.h"

namespace simrun {
namespace {

// What one rank keeps for the whole step, per activation, and for a moment.
struct RankNeeds {
  std::int64_t fixed = 0;
  std::int64_t held = 0;       // by the (stage, microbatch) that holds most, between two passes
  std::int64_t transient = 0;  // in a pass, above what is there before and behind it
};

RankNeeds needs_of(const Plan& plan, const Program& program) {
  const MemoryWalk walk = walk_memory(plan, program, WhichStep::steady, MemoryDetail::entries);
  RankNeeds needs{total(walk.start), 0, 0};
  std::map<std::pair<Index, std::int32_t>, std::int64_t> held;  // by chunk and microbatch
  std::int64_t before = needs.fixed;
  for (const EntryMemory& memory : walk.entries) {
    const Entry& entry = program.entries[memory.entry];
    const std::int64_t after = total(memory.after);
    if (plan.segments[entry.segment].kind != PassKind::step) {
      const Binding& binding = program.bindings[entry.first_binding];
      std::int64_t& own = held[{binding.chunk, binding.microbatch}];
      own += after - before;
      needs.held = std::max(needs.held, own);
      needs.transient = std::max(needs.transient, total(memory.peak) - std::max(before, after));
    }
    before = after;
  }
  return needs;
}

}  // namespace

int activation_limit(const Plan& plan) {
  const std::int64_t all = plan.job.virtual_pipeline * plan.job.microbatches;
  std::int64_t least = all;
  for (const Program& program : plan.programs) {
    const RankNeeds needs = needs_of(plan, program);
    const std::int64_t room =
        std::max<std::int64_t>(room_for_plan(plan, program) - needs.fixed - needs.transient, 0);
    if (needs.held > 0) least = std::min(least, room / needs.held);
  }
  if (least >= all) return 0;
  return static_cast<int>(std::max(least, plan.job.virtual_pipeline));
}

}  // namespace simrun
