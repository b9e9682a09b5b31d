#include "schedules/recorded_rows.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace simrun {
namespace {

// Values by microbatch and GPU: the axes of the mesh, the fastest last.
ExtentTable table_of(const Plan& plan, RecordedRows::const_iterator first,
                     RecordedRows::const_iterator last) {
  const Mesh& mesh = plan.stages.front().meshes.front();
  ExtentTable table;
  table.source = ExtentSource::recorded_histogram;
  table.origin = "routing of a run";
  table.per_microbatch = true;
  std::int64_t gpus = 1;
  for (std::size_t axis = mesh.axes.size(); axis-- > 0;) {
    table.axes.push_back(static_cast<std::uint8_t>(axis));
    gpus *= mesh.axes[axis].size;
  }
  const std::int64_t microbatches = std::prev(last)->first.microbatch + 1;
  table.values.assign(static_cast<std::size_t>(microbatches * gpus), 0);
  for (auto at = first; at != last; ++at)
    table.values[static_cast<std::size_t>(at->first.microbatch * gpus + at->first.local_gpu)] = at->second;
  return table;
}

}  // namespace

Plan with_recorded_rows(Plan plan, const RecordedRows& rows) {
  std::map<std::pair<std::vector<std::uint8_t>, std::vector<std::int64_t>>, std::int32_t> known;
  for (auto first = rows.begin(); first != rows.end();) {
    const Index index = first->first.buffer;
    const auto last = rows.upper_bound({index, INT32_MAX, INT64_MAX});
    ExtentTable table = table_of(plan, first, last);
    const auto [at, is_new] =
        known.try_emplace({table.axes, table.values}, static_cast<std::int32_t>(plan.extent_tables.size()));
    Buffer& buffer = plan.buffers[index];
    buffer.dims[0] = {buffer.dims[0].name, -1, 1};
    buffer.dims[1] = {buffer.dims[1].name, at->second,
                      *std::max_element(table.values.begin(), table.values.end())};
    if (is_new) plan.extent_tables.push_back(std::move(table));
    first = last;
  }
  return plan;
}

}  // namespace simrun
