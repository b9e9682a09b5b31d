#include "sim/held_memory.h"

#include <algorithm>
#include <cmath>

#include "configs/node_groups.h"
#include "schedules/memory_limit.h"
#include "sim/allocation_replay.h"
#include "sim/communicator_memory.h"
#include "sim/exchange_groups.h"
#include "sim/memory.h"

namespace simrun {

HeldMemory held_memory(const Plan& plan, const Program& program, std::int64_t local_gpu) {
  const FrameworkMemory& framework = plan.framework.memory;
  const Gpu& gpu = gpu_at(plan.cluster, device_at(plan, program.pipeline_rank, local_gpu));
  const CommunicatorMemory nccl = communicator_memory(plan, program, local_gpu);
  const std::int64_t context = framework.context_bytes + framework.context_bytes_per_sm * gpu.sm_count;
  CachingRules rules;
  rules.expandable_segments = framework.expandable_segments;
  rules.capacity =
      std::max<std::int64_t>(gpu.memory_bytes - gpu.driver_memory_bytes - context - nccl.bytes, 0);
  const ReplayedStep step = replay_allocations(plan, program, local_gpu, rules);

  HeldMemory held;
  held.live_bytes = step.by_kind[static_cast<std::size_t>(HeldTensor::plan)];
  held.allocated_bytes = step.allocated;
  held.reserved_bytes = step.reserved;
  if (framework.allocator == AllocatorKind::arena) {
    const auto visible = static_cast<double>(gpu.memory_bytes - gpu.driver_memory_bytes);
    held.reserved_bytes =
        std::max<std::int64_t>(step.allocated, std::llround(framework.arena_share * visible));
  }
  held.device_bytes = held.reserved_bytes + context + nccl.bytes;
  const auto add = [&](const char* name, HeldLevel level, std::int64_t bytes) {
    if (bytes > 0) held.parts.push_back({name, level, bytes});
  };
  for (int kind = static_cast<int>(HeldTensor::plan) + 1; kind < held_tensor_kinds; ++kind)
    add(to_string(static_cast<HeldTensor>(kind)), HeldLevel::allocated,
        step.by_kind[static_cast<std::size_t>(kind)]);
  add("rounding", HeldLevel::allocated, step.rounding);
  add("cached", HeldLevel::reserved, held.reserved_bytes - step.allocated);
  add("communicators", HeldLevel::device, nccl.bytes);
  add("context", HeldLevel::device, context);
  return held;
}

std::int64_t room_for_plan(const Plan& plan, const Program& program, std::int64_t local_gpu) {
  const Gpu& gpu = gpu_at(plan.cluster, device_at(plan, program.pipeline_rank, local_gpu));
  if (plan.framework.memory.allocator == AllocatorKind::none)
    return gpu.memory_bytes - plan.cluster.reserved_bytes;
  const std::int64_t peak =
      walk_memory(plan, program, WhichStep::steady, MemoryDetail::peak, {local_gpu}).peak.bytes;
  return memory_limit(plan, gpu, held_memory(plan, program, local_gpu), peak);
}

}  // namespace simrun
