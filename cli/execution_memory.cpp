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
  if (device != ExecutionDevice::cpu_f64 && device != ExecutionDevice::cpu_f32) return plan;
  Plan stored = plan;
  for (Buffer& buffer : stored.buffers) {
    if (!is_floating(buffer.dtype)) continue;
    buffer.dtype = device == ExecutionDevice::cpu_f64 ? Dtype::fp64 : Dtype::fp32;
    buffer.scale_block = 0;
  }
  return stored;
}

std::vector<std::int64_t> predicted_peaks(const Plan& plan, int steps,
                                          const std::vector<RecordedRows>& rows) {
  const std::vector<RankPlace> places = ranks_of(plan);
  std::vector<std::int64_t> peaks(places.size());
  const auto walk = [&](const Plan& of, WhichStep step) {
    for (const RankPlace& place : places) {
      const Program& program = of.programs[static_cast<std::size_t>(place.pipeline_rank)];
      std::int64_t& peak = peaks[static_cast<std::size_t>(place.rank)];
      peak = std::max(peak, walk_memory(of, program, step, MemoryDetail::peak, {place.local}).peak.bytes);
    }
  };
  const auto has_rows = [](const RecordedRows& of) { return !of.empty(); };
  if (std::none_of(rows.begin(), rows.end(), has_rows)) {
    walk(plan, WhichStep::first);
    if (steps > 1) walk(plan, WhichStep::steady);
    return peaks;
  }
  for (std::size_t step = 0; step < rows.size(); ++step)
    walk(with_recorded_rows(plan, rows[step]),
         step % static_cast<std::size_t>(steps) == 0 ? WhichStep::first : WhichStep::steady);
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
