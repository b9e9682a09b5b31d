#include "backend/bucket_views.h"

#include <algorithm>
#include <set>

#include "schedules/extent_tables.h"

namespace simrun {

BucketViews::BucketViews(const Plan& plan) : plan_(plan) {
  for (Index i = 0; i < plan.buffers.size(); ++i)
    if (plan.buffers[i].parameter != no_index && plan.buffers[i].parent != no_index)
      views_[plan.buffers[i].parent].push_back(i);
  for (auto& [bucket, views] : views_)
    std::sort(views.begin(), views.end(), [&](Index a, Index b) {
      return plan.buffers[a].parent_offset < plan.buffers[b].parent_offset;
    });
  count_holders();
}

Index BucketViews::bucket_of(Index flat) const {
  for (;;) {
    const Buffer& buffer = plan_.buffers[flat];
    if (buffer.shard_of != no_index)
      flat = buffer.shard_of;
    else if (buffer.parent != no_index)
      flat = buffer.parent;
    else
      return flat;
  }
}

const std::vector<Index>& BucketViews::views(Index bucket) const {
  static const std::vector<Index> none;
  const auto at = views_.find(bucket);
  return at == views_.end() ? none : at->second;
}

std::vector<BucketViews::Overlap> BucketViews::overlaps(Index flat, const RankPlace& place) const {
  const DimPart held = part_of(plan_, plan_.buffers[flat], place, 0).front();
  std::vector<Overlap> overlaps;
  for (const Index view : views(bucket_of(flat))) {
    const Buffer& of = plan_.buffers[view];
    const std::int64_t first = std::max(held.first, of.parent_offset);
    const std::int64_t end = std::min(held.first + held.extent, of.parent_offset + of.elements());
    if (first < end) overlaps.push_back({view, first - of.parent_offset, first - held.first, end - first});
  }
  return overlaps;
}

// Ranks of a pipeline rank among which elements of a view are equal in this flat buffer and so counted again.
std::int64_t BucketViews::holders(Index flat, Index view, const StageDevices& stage) const {
  const Mesh& mesh = stage.meshes.front();
  std::set<std::uint8_t> divided;
  for (const Index buffer : {flat, view})
    for (const std::string& split : plan_.buffers[buffer].split)
      for (const std::uint8_t axis : axes_of_split(split, mesh)) divided.insert(axis);
  std::int64_t ranks = 1;
  for (std::size_t axis = 0; axis < mesh.axes.size(); ++axis)
    if (divided.count(static_cast<std::uint8_t>(axis)) == 0) ranks *= mesh.axes[axis].size;
  return ranks;
}

// Of pieces on several pipeline ranks every element is on one of them.
static bool is_counted_on(const Buffer& flat, std::int32_t pipeline_rank) {
  if (flat.split.size() != 1) return true;
  const std::vector<std::int32_t> ranks = ranks_of_split(flat.split.front());
  return ranks.empty() || ranks.front() == pipeline_rank;
}

void BucketViews::count_holders() {
  for (const Program& program : plan_.programs) {
    std::set<Index> segments, seen;
    for (const Entry& entry : program.entries) segments.insert(entry.segment);
    for (const Index segment : segments)
      for (const Instruction& what : plan_.segments[segment].instructions) {
        if (what.opcode != Opcode::optimizer || what.inputs.empty()) continue;
        const Index flat = what.inputs.front();
        if (!seen.insert(flat).second) continue;
        if (!is_counted_on(plan_.buffers[flat], program.pipeline_rank)) continue;
        for (const Index view : views(bucket_of(flat)))
          holders_of_[plan_.buffers[view].parameter] +=
              holders(flat, view, plan_.stages[static_cast<std::size_t>(program.pipeline_rank)]);
      }
  }
}

std::vector<CountedRange> BucketViews::counted(Index flat, const RankPlace& place) const {
  std::vector<CountedRange> ranges;
  for (const Overlap& overlap : overlaps(flat, place)) {
    const auto at = holders_of_.find(plan_.buffers[overlap.view].parameter);
    const std::int64_t ranks = at == holders_of_.end() ? 1 : at->second;
    ranges.push_back({overlap.flat_first, overlap.count, 1 / static_cast<double>(ranks)});
  }
  return ranges;
}

}  // namespace simrun
