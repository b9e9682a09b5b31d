#include "cli/execution_memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "backend/tensor_part.h"
#include "sim/memory.h"

namespace simrun {
namespace {

bool is_floating(Dtype dtype) {
  return dtype != Dtype::int64 && dtype != Dtype::int32 && dtype != Dtype::uint8;
}

}  // namespace

Plan as_stored(const Plan& plan, ExecutionDevice device) {
  const bool is_double = device == ExecutionDevice::cpu_f64 || device == ExecutionDevice::cuda_f64;
  if (!is_double && device != ExecutionDevice::cpu_f32 && device != ExecutionDevice::cuda_f32) return plan;
  Plan stored = plan;
  for (Buffer& buffer : stored.buffers) {
    if (!is_floating(buffer.dtype)) continue;
    buffer.dtype = is_double ? Dtype::fp64 : Dtype::fp32;
    buffer.scale_block = 0;
  }
  return stored;
}

std::vector<std::int64_t> predicted_peaks(const Plan& plan, int steps, const RoutedRows& rows) {
  const Plan first = with_recorded_rows(plan, rows.of_first_step);
  const Plan steady = with_recorded_rows(plan, rows.of_further_steps);
  std::vector<std::int64_t> peaks;
  for (const RankPlace& place : ranks_of(plan)) {
    const Program& program = plan.programs[static_cast<std::size_t>(place.pipeline_rank)];
    const auto peak = [&](const Plan& of, WhichStep step) {
      return walk_memory(of, program, step, MemoryDetail::peak, {place.local}).peak.bytes;
    };
    peaks.push_back(std::max(peak(first, WhichStep::first), steps > 1 ? peak(steady, WhichStep::steady) : 0));
  }
  return peaks;
}

std::int64_t memory_of_this_machine() {
  std::int64_t bytes = static_cast<std::int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
  std::int64_t limit = 0;
  if (std::ifstream group("/sys/fs/cgroup/memory.max"); group >> limit) bytes = std::min(bytes, limit);
  return bytes;
}

std::int64_t observation_bytes(const Plan& plan, const ExecuteOptions& options) {
  const std::size_t moments = options.keeps_moments ? saved_optimizer(plan).moments : 0;
  const std::size_t kept = 2 + 2 * moments;  // gradients and parameters; moments, and all of it as a file
  return plan.job.parameters * static_cast<std::int64_t>(kept * sizeof(double));
}

}  // namespace simrun
