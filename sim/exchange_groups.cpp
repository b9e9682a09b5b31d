#include "sim/exchange_groups.h"

#include <algorithm>
#include <utility>

namespace simrun {

namespace {

const StageDevices& stage_of(const Plan& plan, std::int32_t pipeline_rank) {
  return plan.stages.at(static_cast<std::size_t>(pipeline_rank));
}

std::int64_t device_count(const StageDevices& stage) {
  std::int64_t count = 0;
  for (const DeviceRange& range : stage.devices) count += range.count;
  return count;
}

std::int64_t device_at(const StageDevices& stage, std::int64_t local_index) {
  for (const DeviceRange& range : stage.devices) {
    if (local_index < range.count) return range.first + local_index;
    local_index -= range.count;
  }
  return -1;
}

// A device's place outside the group: its local index with the group's own coordinates set to 0.
std::int64_t place_outside(const Mesh& mesh, const Group& group, std::int64_t local_index) {
  std::int64_t place = local_index, stride = 1;
  for (std::size_t axis = 0; axis < mesh.axes.size(); ++axis) {
    const std::int64_t size = std::max<std::int64_t>(mesh.axes[axis].size, 1);
    if (std::find(group.axes.begin(), group.axes.end(), axis) != group.axes.end())
      place -= local_index / stride % size * stride;
    stride *= size;
  }
  return place;
}

std::vector<std::int32_t> stages_of(const Group& group, std::int32_t pipeline_rank) {
  return group.pipeline_ranks.empty() ? std::vector<std::int32_t>{pipeline_rank} : group.pipeline_ranks;
}

// Instance numbers by place outside the group, over all stages; no_index where there is no device.
std::vector<Index> instance_numbers(const Plan& plan, std::int32_t pipeline_rank, const Group& group) {
  std::vector<Index> numbers;
  for (const std::int32_t rank : stages_of(group, pipeline_rank)) {
    const StageDevices& stage = stage_of(plan, rank);
    const std::int64_t devices = device_count(stage);
    numbers.resize(std::max(numbers.size(), static_cast<std::size_t>(devices)), no_index);
    for (std::int64_t i = 0; i < devices; ++i)
      numbers[static_cast<std::size_t>(place_outside(stage.meshes.at(group.mesh), group, i))] = 0;
  }
  Index instances = 0;
  for (Index& number : numbers)
    if (number != no_index) number = instances++;
  return numbers;
}

// The local index of the peer `offset` steps along the axes, of which the last turns fastest; or -1 beyond
// the end where they do not wrap.
std::int64_t axis_peer(const Mesh& mesh, const Peer& peer, std::int64_t i) {
  std::vector<std::int64_t> strides{1};  // by mesh axis
  for (const Axis& axis : mesh.axes) strides.push_back(strides.back() * axis.size);
  std::int64_t own = 0, size = 1;
  for (const std::uint8_t axis : peer.axes) {
    if (axis >= mesh.axes.size()) return -1;
    own = own * mesh.axes[axis].size + i / strides[axis] % mesh.axes[axis].size;
    size *= mesh.axes[axis].size;
  }
  std::int64_t other = own + peer.offset;
  if (peer.wrap) other = (other % size + size) % size;
  if (other < 0 || other >= size) return -1;
  for (auto axis = peer.axes.rbegin(); axis != peer.axes.rend(); ++axis) {
    const std::int64_t extent = mesh.axes[*axis].size;
    i += (other % extent - own % extent) * strides[*axis];
    other /= extent;
    own /= extent;
  }
  return i;
}

}  // namespace

std::int64_t device_count(const Plan& plan, std::int32_t pipeline_rank) {
  return device_count(stage_of(plan, pipeline_rank));
}

std::int64_t device_at(const Plan& plan, std::int32_t pipeline_rank, std::int64_t local_index) {
  return device_at(stage_of(plan, pipeline_rank), local_index);
}

Index local_index(const Plan& plan, std::int32_t pipeline_rank, std::int64_t device) {
  std::int64_t before = 0;
  for (const DeviceRange& range : stage_of(plan, pipeline_rank).devices) {
    if (device >= range.first && device < range.first + range.count)
      return static_cast<Index>(before + device - range.first);
    before += range.count;
  }
  return no_index;
}

std::vector<std::vector<std::int64_t>> group_instances(const Plan& plan, std::int32_t pipeline_rank,
                                                       const Group& group) {
  const std::vector<Index> numbers = instance_numbers(plan, pipeline_rank, group);
  std::vector<std::vector<std::int64_t>> instances;
  for (const std::int32_t rank : stages_of(group, pipeline_rank)) {
    const StageDevices& stage = stage_of(plan, rank);
    const Mesh& mesh = stage.meshes.at(group.mesh);
    std::int64_t i = 0;
    for (const DeviceRange& range : stage.devices)
      for (std::int64_t device = range.first; device < range.first + range.count; ++device, ++i) {
        const Index number = numbers[static_cast<std::size_t>(place_outside(mesh, group, i))];
        if (number >= instances.size()) instances.resize(number + 1);
        instances[number].push_back(device);
      }
  }
  for (std::vector<std::int64_t>& instance : instances) std::sort(instance.begin(), instance.end());
  return instances;
}

std::vector<Index> instance_of_devices(const Plan& plan, std::int32_t pipeline_rank, const Group& group) {
  const std::vector<Index> numbers = instance_numbers(plan, pipeline_rank, group);
  const StageDevices& stage = stage_of(plan, pipeline_rank);
  const Mesh& mesh = stage.meshes.at(group.mesh);
  std::vector<Index> instance_of(static_cast<std::size_t>(device_count(stage)));
  for (std::size_t i = 0; i < instance_of.size(); ++i)
    instance_of[i] =
        numbers[static_cast<std::size_t>(place_outside(mesh, group, static_cast<std::int64_t>(i)))];
  return instance_of;
}

std::vector<std::vector<std::int64_t>> one_sided_members(const Plan& plan, std::int32_t pipeline_rank,
                                                         const Communication& communication) {
  const std::vector<Index> instance = instance_of_devices(plan, pipeline_rank, communication.group);
  const std::vector<std::vector<std::int64_t>> instances =
      group_instances(plan, pipeline_rank, communication.group);
  std::vector<std::vector<std::int64_t>> members;
  for (const Index number : instance) {
    const auto local_index = static_cast<std::int64_t>(members.size());
    members.push_back({device_at(plan, pipeline_rank, local_index)});
    for (const std::int64_t place : communication.servers.members)
      members.back().push_back(instances.at(number).at(static_cast<std::size_t>(place)));
  }
  return members;
}

std::int64_t peer_of(const Plan& plan, std::int32_t pipeline_rank, const Communication& communication,
                     std::int64_t local_index) {
  const Peer& peer = communication.peer;
  const StageDevices& own = stage_of(plan, pipeline_rank);
  const StageDevices& other = peer.pipeline_rank >= 0 ? stage_of(plan, peer.pipeline_rank) : own;
  std::int64_t j = local_index;
  if (!peer.axes.empty()) j = axis_peer(own.meshes.at(communication.group.mesh), peer, local_index);
  if (!peer.coordinate_map.empty())
    j = std::cmp_less(local_index, peer.coordinate_map.size())
            ? peer.coordinate_map[static_cast<std::size_t>(local_index)]
            : -1;
  return j < 0 ? -1 : device_at(other, j);
}

}  // namespace simrun
