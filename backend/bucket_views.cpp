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
  find_copies();
  count_holders();
}

void BucketViews::find_copies() {
  for (const Segment& segment : plan_.segments)
    for (const Instruction& what : segment.instructions) {
      if (what.opcode != Opcode::copy || what.inputs.size() != what.outputs.size()) continue;
      for (std::size_t i = 0; i < what.inputs.size(); ++i) {
        if (plan_.buffers[what.inputs[i]].space == plan_.buffers[what.outputs[i]].space) continue;
        copies_[what.inputs[i]].push_back(what.outputs[i]);
        copies_[what.outputs[i]].push_back(what.inputs[i]);
      }
    }
}

bool BucketViews::is_in_bucket(Index flat) const {
  const Buffer& buffer = plan_.buffers[flat];
  return buffer.shard_of != no_index || buffer.parent != no_index || views_.count(flat) > 0;
}

Index BucketViews::kept_of(Index flat) const {
  if (plan_.buffers[flat].scope == Scope::run) return flat;
  const auto copies = copies_.find(flat);
  if (copies != copies_.end())
    for (const Index copy : copies->second)
      if (plan_.buffers[copy].scope == Scope::run) return copy;
  return flat;
}

std::vector<Index> BucketViews::chain(Index flat) const {
  const auto copies = copies_.find(flat);
  if (!is_in_bucket(flat) && copies != copies_.end()) {
    const auto at = std::find_if(copies->second.begin(), copies->second.end(),
                                 [&](Index copy) { return is_in_bucket(copy); });
    if (at != copies->second.end()) flat = *at;
  }
  std::vector<Index> links{flat};
  for (;;) {
    const Buffer& buffer = plan_.buffers[links.back()];
    const Index next = buffer.shard_of != no_index ? buffer.shard_of : buffer.parent;
    if (next == no_index) return links;
    links.push_back(next);
  }
}

Index BucketViews::bucket_of(Index flat) const { return chain(flat).back(); }

const std::vector<Index>& BucketViews::views(Index bucket) const {
  static const std::vector<Index> none;
  const auto at = views_.find(bucket);
  return at == views_.end() ? none : at->second;
}

std::vector<BucketViews::Overlap> BucketViews::overlaps(Index flat, const RankPlace& place) const {
  const std::vector<Index> links = chain(flat);
  DimPart held = part_of(plan_, plan_.buffers[flat], place, 0).front();
  held.first = 0;
  for (const Index link : links) {
    const Buffer& of = plan_.buffers[link];
    if (of.shard_of != no_index)
      held.first += part_of(plan_, of, place, 0).front().first;
    else if (of.parent != no_index)
      held.first += view_begin(plan_, of, place);
  }
  std::vector<Overlap> overlaps;
  for (const Index view : views(links.back())) {
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
  std::vector<Index> parts = chain(flat);
  parts.push_back(view);
  for (const Index buffer : parts)
    for (const std::string& split : plan_.buffers[buffer].split)
      for (const std::uint8_t axis : axes_of_split(split, mesh)) divided.insert(axis);
  std::int64_t ranks = 1;
  for (std::size_t axis = 0; axis < mesh.axes.size(); ++axis)
    if (divided.count(static_cast<std::uint8_t>(axis)) == 0) ranks *= mesh.axes[axis].size;
  return ranks;
}

// Of pieces on several pipeline ranks every element is on one of them, also of a part of a piece.
bool BucketViews::is_counted_on(Index flat, std::int32_t pipeline_rank) const {
  for (const Index link : chain(flat)) {
    const std::vector<std::string>& split = plan_.buffers[link].split;
    if (split.size() != 1) continue;
    const std::vector<std::int32_t> ranks = ranks_of_split(split.front());
    if (!ranks.empty()) return ranks.front() == pipeline_rank;
  }
  return true;
}

void BucketViews::count_holders() {
  for (const Program& program : plan_.programs) {
    std::set<Index> segments, seen;
    for (const Entry& entry : program.entries) segments.insert(entry.segment);
    for (const Index segment : segments)
      for (const Instruction& what : plan_.segments[segment].instructions) {
        if (what.opcode != Opcode::optimizer || what.inputs.empty()) continue;
        const Index flat = what.inputs.front();
        if (!seen.insert(bucket_of(flat)).second) continue;  // its parts are updated by several
        if (!is_counted_on(flat, program.pipeline_rank)) continue;
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
