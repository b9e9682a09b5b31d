#include "backend/tensor_part.h"

#include <algorithm>
#include <stdexcept>

#include "schedules/extent_tables.h"

namespace simrun {

std::int64_t elements(const TensorPart& part) {
  std::int64_t product = 1;
  for (const DimPart& dim : part) product *= dim.extent;
  return product;
}

std::vector<IndexRun> runs_of(const DimPart& part) {
  if (part.gap == 0) return {{part.first, part.extent}};
  return {{part.first, part.near}, {part.first + part.near + part.gap, part.extent - part.near}};
}

DimPart contiguous_part(std::int64_t whole, std::int64_t index, std::int64_t count) {
  const std::int64_t block = whole / count;
  return {index * block, block, whole};
}

DimPart zigzag_part(std::int64_t whole, std::int64_t index, std::int64_t count) {
  const std::int64_t block = whole / (2 * count);
  DimPart part{index * block, 2 * block, whole};
  if (index + 1 == count) return part;  // its blocks are neighbours
  part.near = block;
  part.gap = (2 * (count - 1 - index)) * block;
  return part;
}

DimPart keys_in_ring(const SequencePart& part, const DimPart& queries) {
  const std::int64_t ranks = queries.whole / queries.extent;
  const std::int64_t rank = queries.first / (part.zigzag ? queries.extent / 2 : queries.extent);
  const std::int64_t source = ((rank - part.key_offset) % ranks + ranks) % ranks;
  return part.zigzag ? zigzag_part(queries.whole, source, ranks)
                     : contiguous_part(queries.whole, source, ranks);
}

DimPart slice_of(const DimPart& part, std::int64_t begin, std::int64_t count) {
  DimPart slice{part.at(begin), count, part.whole};
  if (begin >= part.near || begin + count <= part.near) return slice;
  slice.near = part.near - begin;
  slice.gap = part.gap;
  return slice;
}

namespace {

std::optional<DimPart> common_part(const DimPart& a, const DimPart& b) {
  std::vector<IndexRun> runs;
  for (const IndexRun& of_a : runs_of(a))
    for (const IndexRun& of_b : runs_of(b)) {
      const std::int64_t first = std::max(of_a.first, of_b.first);
      const std::int64_t end = std::min(of_a.first + of_a.count, of_b.first + of_b.count);
      if (first >= end) continue;
      if (!runs.empty() && runs.back().first + runs.back().count == first)
        runs.back().count += end - first;
      else
        runs.push_back({first, end - first});
    }
  if (runs.empty()) return {};
  if (runs.size() > 2) throw std::logic_error("two parts of a dimension have three runs in common");
  DimPart common{runs[0].first, runs[0].count, a.whole};
  if (runs.size() == 1) return common;
  common.extent += runs[1].count;
  common.near = runs[0].count;
  common.gap = runs[1].first - runs[0].first - runs[0].count;
  return common;
}

}  // namespace

std::optional<TensorPart> common_part(const TensorPart& a, const TensorPart& b) {
  TensorPart common;
  for (std::size_t d = 0; d < a.size(); ++d) {
    const std::optional<DimPart> along = common_part(a[d], b[d]);
    if (!along) return {};
    common.push_back(*along);
  }
  return common;
}

bool is_within(const TensorPart& part, const TensorPart& of) {
  if (elements(part) == 0) return true;
  const std::optional<TensorPart> common = common_part(part, of);
  return common && elements(*common) == elements(part);
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

std::int64_t moved_along(const Mesh& mesh, const std::vector<std::uint8_t>& axes, std::int64_t local,
                         std::int64_t index) {
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    std::int64_t stride = 1;
    for (std::size_t faster = 0; faster < *axis; ++faster) stride *= mesh.axes[faster].size;
    const std::int64_t size = mesh.axes[*axis].size;
    local += (index % size - local / stride % size) * stride;
    index /= size;
  }
  return local;
}

namespace {

// Whether a table says how much of the dimension every rank has that it is split over (parameter servers on
// some of them, batches of unlike size); other tables cut what a rank has by its place along other axes.
bool is_uneven(const Plan& plan, const Buffer& buffer, std::size_t d, const Mesh& mesh) {
  const std::int32_t table = buffer.dims[d].table;
  if (table < 0 || d >= buffer.split.size() || buffer.split[d].empty()) return false;
  return buffer.dims.size() == 1 ||
         plan.extent_tables[static_cast<std::size_t>(table)].axes == axes_of_split(buffer.split[d], mesh);
}

DimPart uneven_part(const Plan& plan, const BufferDim& dim, const std::string& split,
                    const TablePlace& place) {
  const Mesh& mesh = plan.stages[static_cast<std::size_t>(place.pipeline_rank)].meshes.front();
  const std::vector<std::uint8_t> axes = axes_of_split(split, mesh);
  const AxesPlace own = place_along(mesh, axes, place.local_gpu);
  DimPart part{0, 0, 0};
  for (std::int64_t i = 0; i < own.count; ++i) {
    TablePlace other = place;
    other.local_gpu = moved_along(mesh, axes, place.local_gpu, i);
    const std::int64_t extent = extent_at(plan, dim, other);
    if (i < own.index) part.first += extent;
    if (i == own.index) part.extent = extent;
    part.whole += extent;
  }
  return part;
}

// Of a dimension of which every rank has `extent` indices. Zigzag blocks come first; the axes behind cut what
// they leave to a rank.
DimPart split_part(const Mesh& mesh, const std::string& split, std::int64_t extent, const RankPlace& place) {
  const std::int64_t local = place.local;
  const std::vector<std::uint8_t> axes = axes_of_split(split, mesh);
  const auto turn = axes.begin() + static_cast<std::ptrdiff_t>(zigzag_axes(split));
  const AxesPlace dealt = place_along(mesh, {axes.begin(), turn}, local);
  AxesPlace along = place_along(mesh, {turn, axes.end()}, local);
  const std::vector<std::int32_t> ranks = ranks_of_split(split);
  if (!ranks.empty()) {
    const auto own = std::find(ranks.begin(), ranks.end(), place.pipeline_rank);
    if (own == ranks.end()) throw std::logic_error("the rank's pipeline rank holds no part of a buffer");
    along.index += (own - ranks.begin()) * along.count;
    along.count *= static_cast<std::int64_t>(ranks.size());
  }
  const std::int64_t whole = dealt.count * along.count * extent;
  if (dealt.count == 1) return contiguous_part(whole, along.index, along.count);
  return slice_of(zigzag_part(whole, dealt.index, dealt.count), along.index * extent, extent);
}

}  // namespace

TensorPart part_of(const Plan& plan, const Buffer& buffer, const RankPlace& place, std::int32_t microbatch) {
  const Mesh& mesh = plan.stages[static_cast<std::size_t>(place.pipeline_rank)].meshes.front();
  TensorPart part;
  for (std::size_t d = 0; d < buffer.dims.size(); ++d) {
    const BufferDim& dim = buffer.dims[d];
    const TablePlace at{place.pipeline_rank, place.local, microbatch};
    const bool is_split = d < buffer.split.size() && !buffer.split[d].empty();
    if (is_uneven(plan, buffer, d, mesh)) {
      part.push_back(uneven_part(plan, dim, buffer.split[d], at));
      continue;
    }
    const std::int64_t extent = extent_at(plan, dim, at);
    part.push_back(is_split ? split_part(mesh, buffer.split[d], extent, place)
                            : contiguous_part(extent, 0, 1));
  }
  return part;
}

std::int64_t copies_of_part(const Plan& plan, const Buffer& buffer, const RankPlace& place) {
  const Mesh& mesh = plan.stages[static_cast<std::size_t>(place.pipeline_rank)].meshes.front();
  std::int64_t copies = 1;
  for (const Axis& axis : mesh.axes) copies *= axis.size;
  for (const std::string& split : buffer.split)
    copies /= place_along(mesh, axes_of_split(split, mesh), place.local).count;
  return copies;
}

std::int64_t view_begin(const Plan& plan, const Buffer& view, const RankPlace& place) {
  const bool is_shard = view.parameter == no_index && view.dims.size() == 1 && view.split.size() == 1;
  return view.parent_offset + (is_shard ? part_of(plan, view, place, 0).front().first : 0);
}

}  // namespace simrun
