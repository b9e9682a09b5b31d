#include "backend/tensor_part.h"

#include <algorithm>

#include "schedules/extent_tables.h"

namespace simrun {

std::int64_t elements(const TensorPart& part) {
  std::int64_t product = 1;
  for (const DimPart& dim : part) product *= dim.extent;
  return product;
}

std::optional<TensorPart> common_part(const TensorPart& a, const TensorPart& b) {
  TensorPart common = a;
  for (std::size_t d = 0; d < a.size(); ++d) {
    const std::int64_t first = std::max(a[d].first, b[d].first);
    const std::int64_t end = std::min(a[d].first + a[d].extent, b[d].first + b[d].extent);
    if (first >= end) return {};
    common[d].first = first;
    common[d].extent = end - first;
  }
  return common;
}

std::vector<RankPlace> ranks_of(const Plan& plan) {
  std::vector<RankPlace> ranks;
  for (std::size_t stage = 0; stage < plan.stages.size(); ++stage) {
    std::int64_t count = 0;
    for (const DeviceRange& range : plan.stages[stage].devices) count += range.count;
    for (std::int64_t local = 0; local < count; ++local)
      ranks.push_back({static_cast<std::int32_t>(stage), local, static_cast<std::int64_t>(ranks.size())});
  }
  return ranks;
}

AxesPlace place_along(const Mesh& mesh, const std::vector<std::uint8_t>& axes, std::int64_t local) {
  AxesPlace place;
  for (const std::uint8_t axis : axes) {
    std::int64_t stride = 1;
    for (std::size_t faster = 0; faster < axis; ++faster) stride *= mesh.axes[faster].size;
    place.index = place.index * mesh.axes[axis].size + local / stride % mesh.axes[axis].size;
    place.count *= mesh.axes[axis].size;
  }
  return place;
}

TensorPart part_of(const Plan& plan, const Buffer& buffer, const RankPlace& place, std::int32_t microbatch) {
  const Mesh& mesh = plan.stages[static_cast<std::size_t>(place.pipeline_rank)].meshes.front();
  TensorPart part;
  for (std::size_t d = 0; d < buffer.dims.size(); ++d) {
    const std::int64_t extent =
        extent_at(plan, buffer.dims[d], {place.pipeline_rank, place.local, microbatch});
    AxesPlace along;
    if (d < buffer.split.size() && !buffer.split[d].empty())
      along = place_along(mesh, axes_of_split(buffer.split[d], mesh), place.local);
    part.push_back({along.index * extent, extent, along.count * extent});
  }
  return part;
}

std::int64_t view_begin(const Plan& plan, const Buffer& view, const RankPlace& place) {
  const bool is_shard = view.parameter == no_index && view.dims.size() == 1 && view.split.size() == 1;
  return view.parent_offset + (is_shard ? part_of(plan, view, place, 0).front().first : 0);
}

}  // namespace simrun
