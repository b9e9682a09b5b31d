#include "configs/node_groups.h"

#include <fmt/format.h>

#include <algorithm>

namespace simrun {

const Gpu& gpu_at(const Cluster& cluster, std::int64_t device) {
  std::int64_t end = 0;
  for (const NodeGroup& group : cluster.node_groups) {
    end += group.nodes * cluster.gpus_per_node;
    if (device < end) return group.gpu;
  }
  return cluster.gpu;
}

GpuKinds::GpuKinds(const Cluster& cluster) : all_(cluster.nodes * cluster.gpus_per_node) {
  std::int64_t end = 0;
  for (const NodeGroup& group : cluster.node_groups) {
    end += group.nodes * cluster.gpus_per_node;
    const auto known = std::ranges::find_if(gpus_, [&](const Gpu* of_kind) { return *of_kind == group.gpu; });
    ranges_.push_back({end, static_cast<std::size_t>(known - gpus_.begin())});
    if (known == gpus_.end()) gpus_.push_back(&group.gpu);
  }
  if (gpus_.size() == 1) ranges_.clear();
  if (gpus_.empty()) gpus_.push_back(&cluster.gpu);
}

std::size_t GpuKinds::of(std::int64_t device) const {
  for (const Range& range : ranges_)
    if (device < range.end) return range.kind;
  return 0;
}

std::int64_t GpuKinds::devices(std::size_t kind) const {
  if (ranges_.empty()) return all_;
  std::int64_t devices = 0, first = 0;
  for (const Range& range : ranges_) {
    if (range.kind == kind) devices += range.end - first;
    first = range.end;
  }
  return devices;
}

std::string gpus_text(const Cluster& cluster) {
  const GpuKinds kinds(cluster);
  if (kinds.count() == 1) return kinds.gpu(0).name;
  std::string text;
  for (std::size_t kind = 0; kind < kinds.count(); ++kind)
    text += fmt::format("{}{} {}", kind == 0 ? "" : " + ", kinds.devices(kind), kinds.gpu(kind).name);
  return text;
}

std::int64_t least_memory(const Cluster& cluster) {
  std::int64_t least = cluster.gpu.memory_bytes;
  for (const NodeGroup& group : cluster.node_groups) least = std::min(least, group.gpu.memory_bytes);
  return least;
}

}  // namespace simrun
