#include "schedules/replica_batches.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>

#include "schedules/extent_tables.h"

namespace simrun {
namespace {

std::int64_t parts_over(const Mesh& mesh, const std::vector<std::uint8_t>& axes) {
  std::int64_t parts = 1;
  for (const std::uint8_t axis : axes) parts *= mesh.axes[axis].size;
  return parts;
}

}  // namespace

void add_replica_batches(Plan& plan, const Job& job) {
  const std::vector<std::int64_t>& sizes = job.training.replica_micro_batch_sizes;
  if (sizes.empty()) return;
  const Mesh& mesh = plan.stages.front().meshes.front();
  const std::int64_t most = *std::max_element(sizes.begin(), sizes.end());
  std::map<std::vector<std::uint8_t>, std::int32_t> known;
  for (Buffer& buffer : plan.buffers)
    for (std::size_t d = 0; d < buffer.dims.size(); ++d) {
      if (plan.dimension_names[buffer.dims[d].name] != "batch") continue;
      const std::vector<std::uint8_t> axes =
          d < buffer.split.size() ? axes_of_split(buffer.split[d], mesh) : std::vector<std::uint8_t>();
      if (parts_over(mesh, axes) != static_cast<std::int64_t>(sizes.size()))
        throw std::invalid_argument(
            fmt::format("replica_micro_batch_sizes: the batch of {} lies in {} parts, not in one for each of "
                        "the {} data-parallel ranks",
                        buffer.name, parts_over(mesh, axes), sizes.size()));
      const auto [table, is_new] =
          known.try_emplace(axes, static_cast<std::int32_t>(plan.extent_tables.size()));
      if (is_new) {
        ExtentTable& sizes_of = plan.extent_tables.emplace_back();
        sizes_of.source = ExtentSource::plan_table;
        sizes_of.axes = axes;
        sizes_of.values = sizes;
      }
      buffer.dims[d].table = table->second;
      buffer.dims[d].extent = most;
    }
}

}  // namespace simrun
