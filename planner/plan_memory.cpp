#include "planner/plan_memory.h"

#include <algorithm>
#include <cstddef>

#include "configs/node_groups.h"

namespace simrun {

std::int64_t largest_memory(const Cluster& cluster) {
  const GpuKinds kinds(cluster);
  std::int64_t most = 0;
  for (std::size_t kind = 0; kind < kinds.count(); ++kind)
    most = std::max(most, kinds.gpu(kind).memory_bytes);
  return most;
}

namespace {

std::int64_t host_excess(const Summary& summary) {
  return std::max<std::int64_t>(summary.host_memory_bytes - summary.host_memory_limit_bytes, 0) +
         std::max<std::int64_t>(summary.nvme_bytes - summary.nvme_limit_bytes, 0);
}

}  // namespace

PlanMemory plan_memory(const Summary& summary, std::int64_t max_memory) {
  const LargestPeak& largest = summary.largest_peak;
  const std::int64_t limit = max_memory > 0 ? std::min(max_memory, largest.limit_bytes) : largest.limit_bytes;
  const std::int64_t own_limit =
      max_memory > 0 ? std::min(max_memory, summary.memory_limit_bytes) : summary.memory_limit_bytes;
  // Whichever of the two lacks more.
  if (!summary.fits && summary.peak_memory_bytes - own_limit >= largest.bytes - limit)
    return {summary.peak_memory_bytes, own_limit, summary.peak_gpu, false, host_excess(summary)};
  return {largest.bytes, limit, largest.gpu, summary.fits && summary.host_fits && largest.bytes <= limit,
          host_excess(summary)};
}

}  // namespace simrun
