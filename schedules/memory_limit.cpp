#include "schedules/memory_limit.h"

namespace simrun {

std::int64_t needed_bytes(const Plan& plan, const Gpu& gpu, const HeldMemory& held) {
  const bool has_arena = plan.framework.memory.allocator == AllocatorKind::arena &&
                         held.device_bytes <= gpu.memory_bytes - gpu.driver_memory_bytes;
  return held.device_bytes - (has_arena ? held.reserved_bytes - held.allocated_bytes : 0);
}

std::int64_t memory_limit(const Plan& plan, const Gpu& gpu, const HeldMemory& held, std::int64_t peak_bytes) {
  return gpu.memory_bytes - gpu.driver_memory_bytes - (needed_bytes(plan, gpu, held) - peak_bytes);
}

}  // namespace simrun
