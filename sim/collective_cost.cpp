#include "sim/collective_cost.h"

#include <algorithm>
#include <map>

#include "sim/kernel_cost.h"

namespace simrun {

namespace {

double bandwidth(const LinkClass& link) { return link.bandwidth * link.efficiency; }

// Pieces of a ring's or a node's part: (n-1)/n of the bytes and n-1 hops.
double ring_seconds(double ranks, double bytes, double bytes_per_second, double hops_s) {
  return ranks > 1 ? (ranks - 1) / ranks * bytes / bytes_per_second + hops_s : 0;
}

// A piece of data passes ranks - 1 hops; a ring over N nodes crosses N times, all hops do if there is one
// rank per node.
double ring_hops_seconds(const Cluster& cluster, const GroupShape& shape) {
  const std::int64_t hops = shape.ranks - 1;
  std::int64_t crossing = shape.nodes == 1 ? 0 : std::min(shape.nodes, hops);
  if (shape.per_node == 1 && shape.nodes > 1) crossing = hops;
  return static_cast<double>(crossing) * cluster.inter_node.latency_s +
         static_cast<double>(hops - crossing) * cluster.intra_node.latency_s;
}

double ring_bandwidth(const Cluster& cluster, const GroupShape& shape) {
  if (shape.nodes == 1) return bandwidth(cluster.intra_node);
  const double inter = static_cast<double>(shape.per_node) * bandwidth(cluster.inter_node);
  return shape.ranks == shape.nodes ? inter : std::min(bandwidth(cluster.intra_node), inter);
}

// `rounds` over the nodes' part: 2 for an all-reduce, which also has both a reduce-scatter and an all-gather
// within the node.
double two_level_seconds(const Cluster& cluster, const GroupShape& shape, double bytes, double rounds) {
  const double k = static_cast<double>(shape.per_node), nodes = static_cast<double>(shape.nodes);
  const double inside =
      ring_seconds(k, bytes, bandwidth(cluster.intra_node), (k - 1) * cluster.intra_node.latency_s);
  const double across = ring_seconds(nodes, bytes / k, bandwidth(cluster.inter_node),
                                     (nodes - 1) * cluster.inter_node.latency_s);
  return rounds * (inside + across);
}

double all_to_all_seconds(const Cluster& cluster, const GroupShape& shape, double bytes) {
  const double n = static_cast<double>(shape.ranks);
  const double k = shape.nodes == 1 ? n : static_cast<double>(shape.per_node);
  const double inside = bytes * (k - 1) / n / bandwidth(cluster.intra_node);
  const double across = shape.nodes == 1 ? 0 : bytes * (n - k) / n / bandwidth(cluster.inter_node);
  return std::max(inside, across) + (k - 1) * cluster.intra_node.latency_s +
         (n - k) * cluster.inter_node.latency_s;
}

// The i-th device of a stage, over its ranges.
std::int64_t device_at(const StageDevices& stage, std::int64_t i) {
  for (const DeviceRange& range : stage.devices) {
    if (i < range.count) return range.first + i;
    i -= range.count;
  }
  return 0;
}

std::int64_t device_count(const StageDevices& stage) {
  std::int64_t count = 0;
  for (const DeviceRange& range : stage.devices) count += range.count;
  return count;
}

// Which instance of the group device i is in: its index with the group's own coordinates taken out (set to
// 0).
std::int64_t instance_of(const Mesh& mesh, const std::vector<std::uint8_t>& axes, std::int64_t i) {
  std::int64_t instance = i, stride = 1;
  for (std::size_t axis = 0; axis < mesh.axes.size(); ++axis) {
    const std::int64_t size = mesh.axes[axis].size;
    if (std::find(axes.begin(), axes.end(), axis) != axes.end()) instance -= i / stride % size * stride;
    stride *= size;
  }
  return instance;
}

// The index of the rank's peer a step along an axis, or -1 at the end of an axis that does not wrap.
std::int64_t axis_peer(const Mesh& mesh, const Peer& peer, std::int64_t i) {
  std::int64_t stride = 1;
  for (std::int32_t axis = 0; axis < peer.axis; ++axis)
    stride *= mesh.axes[static_cast<std::size_t>(axis)].size;
  const std::int64_t size = mesh.axes[static_cast<std::size_t>(peer.axis)].size;
  const std::int64_t own = i / stride % size;
  std::int64_t other = own + peer.offset;
  if (peer.wrap) other = (other % size + size) % size;
  return other < 0 || other >= size ? -1 : i + (other - own) * stride;
}

std::int64_t node_of(const Plan& plan, const StageDevices& stage, std::int64_t i) {
  return device_at(stage, i) / std::max<std::int64_t>(plan.cluster.gpus_per_node, 1);
}

}  // namespace

std::vector<GroupShape> group_shapes(const Plan& plan, std::int32_t pipeline_rank, const Group& group) {
  std::vector<std::int32_t> stages = group.pipeline_ranks;
  if (stages.empty()) stages = {pipeline_rank};
  std::map<std::int64_t, std::map<std::int64_t, std::int64_t>> ranks_by_instance_and_node;
  for (const std::int32_t index : stages) {
    const StageDevices& stage = plan.stages.at(static_cast<std::size_t>(index));
    const Mesh& mesh = stage.meshes.at(group.mesh);
    for (std::int64_t i = 0; i < device_count(stage); ++i)
      ++ranks_by_instance_and_node[instance_of(mesh, group.axes, i)][node_of(plan, stage, i)];
  }
  std::vector<GroupShape> shapes;
  for (const auto& [instance, ranks_by_node] : ranks_by_instance_and_node) {
    GroupShape shape{.ranks = 0,
                     .nodes = static_cast<std::int64_t>(ranks_by_node.size()),
                     .per_node = ranks_by_node.begin()->second};
    for (const auto& [node, ranks] : ranks_by_node) {
      shape.ranks += ranks;
      shape.per_node = std::min(shape.per_node, ranks);
    }
    shapes.push_back(shape);
  }
  std::sort(shapes.begin(), shapes.end());
  shapes.erase(std::unique(shapes.begin(), shapes.end()), shapes.end());
  return shapes;
}

double collective_seconds(const Cluster& cluster, Opcode opcode, const GroupShape& shape, double bytes) {
  if (shape.ranks <= 1) return 0;
  if (opcode == Opcode::all_to_all) return all_to_all_seconds(cluster, shape, bytes);
  const double hops_s = ring_hops_seconds(cluster, shape);
  const double ring_bytes_per_second = ring_bandwidth(cluster, shape);
  if (opcode == Opcode::broadcast) return bytes / ring_bytes_per_second + hops_s;
  const double rounds = opcode == Opcode::all_reduce ? 2 : 1;
  const double ring =
      rounds * ring_seconds(static_cast<double>(shape.ranks), bytes, ring_bytes_per_second, hops_s);
  // Two levels need the same number of ranks on every node.
  if (shape.nodes == 1 || shape.per_node * shape.nodes != shape.ranks) return ring;
  return std::min(ring, two_level_seconds(cluster, shape, bytes, rounds));
}

bool crosses_nodes(const Plan& plan, std::int32_t pipeline_rank, const Communication& communication) {
  const Peer& peer = communication.peer;
  const StageDevices& own = plan.stages.at(static_cast<std::size_t>(pipeline_rank));
  const StageDevices& other =
      peer.pipeline_rank >= 0 ? plan.stages.at(static_cast<std::size_t>(peer.pipeline_rank)) : own;
  const std::int64_t others = device_count(other);
  for (std::int64_t i = 0; i < device_count(own); ++i) {
    std::int64_t j = i;
    if (peer.axis >= 0) j = axis_peer(own.meshes.at(communication.group.mesh), peer, i);
    if (!peer.coordinate_map.empty()) j = peer.coordinate_map.at(static_cast<std::size_t>(i));
    if (j < 0 || j >= others) continue;
    if (node_of(plan, own, i) != node_of(plan, other, j)) return true;
  }
  return false;
}

double transfer_seconds(const Cluster& cluster, bool crosses, double bytes) {
  const LinkClass& link = crosses ? cluster.inter_node : cluster.intra_node;
  return link.latency_s + bytes / bandwidth(link);
}

double communicated_bytes(const Plan& plan, const Instruction& instruction) {
  const bool by_output = instruction.opcode == Opcode::all_gather || instruction.opcode == Opcode::recv ||
                         instruction.opcode == Opcode::broadcast;
  double bytes = 0;
  for (const Index index : by_output ? instruction.outputs : instruction.inputs) {
    const Buffer& buffer = plan.buffers[index];
    bytes += static_cast<double>(buffer.elements() * bytes_of(buffer.dtype));
  }
  return bytes;
}

Picoseconds communication_time(const Plan& plan, std::int32_t pipeline_rank, const Instruction& instruction) {
  const Communication& communication = plan.communications.at(instruction.communication);
  const double bytes = communicated_bytes(plan, instruction);
  if (instruction.opcode == Opcode::send || instruction.opcode == Opcode::recv) {
    const bool crosses = crosses_nodes(plan, pipeline_rank, communication);
    return to_picoseconds(transfer_seconds(plan.cluster, crosses, bytes));
  }
  double seconds = 0;
  for (const GroupShape& shape : group_shapes(plan, pipeline_rank, communication.group))
    seconds = std::max(seconds, collective_seconds(plan.cluster, instruction.opcode, shape, bytes));
  return to_picoseconds(seconds);
}

}  // namespace simrun
