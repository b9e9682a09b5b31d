#include "sim/communicator_memory.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>
#include <vector>

#include "configs/node_groups.h"
#include "sim/exchange_groups.h"

namespace simrun {

namespace {

constexpr double nvlink_rate = 25e9;  // bytes/s of one link and direction, NVLink 2 to 4
constexpr std::int64_t channels_per_nvlink = 2;
constexpr std::int64_t channels_per_nic = 2, channels_of_transfer_between_nodes = 2;

using Devices = std::vector<std::int64_t>;

bool spans_nodes(const Plan& plan, const Devices& members) {
  const std::int64_t gpus = std::max<std::int64_t>(plan.cluster.gpus_per_node, 1);
  return std::any_of(members.begin(), members.end(),
                     [&](std::int64_t device) { return device / gpus != members.front() / gpus; });
}

// Of a communicator within a node: two per NVLink, as far as the framework's NCCL has so many. Of unlike GPUs
// the one with the fewest decides.
std::int64_t channels_in_node(const Plan& plan, const Devices& members) {
  double bandwidth = gpu_at(plan.cluster, members.front()).nvlink_bandwidth;
  if (!plan.cluster.node_groups.empty())
    for (const std::int64_t member : members)
      bandwidth = std::min(bandwidth, gpu_at(plan.cluster, member).nvlink_bandwidth);
  const auto links = static_cast<std::int64_t>(bandwidth / nvlink_rate);
  return std::min(plan.framework.memory.communicator_channels,
                  channels_per_nvlink * std::max(links, std::int64_t{1}));
}

// The channels of collectives of these devices, seen from `device`.
std::int64_t channels(const Plan& plan, const Devices& members, std::int64_t device) {
  const std::int64_t all = channels_in_node(plan, members);
  if (!spans_nodes(plan, members)) return all;
  const std::int64_t gpus = std::max<std::int64_t>(plan.cluster.gpus_per_node, 1);
  const std::int64_t here = std::count_if(
      members.begin(), members.end(), [&](std::int64_t member) { return member / gpus == device / gpus; });
  const std::int64_t nics = std::max<std::int64_t>(here * plan.cluster.nics_per_node / gpus, 1);
  return std::min(all, channels_per_nic * nics);
}

class Communicators {
 public:
  Communicators(const Plan& plan, const Program& program, std::int64_t local_gpu)
      : plan_(plan), program_(program), local_gpu_(local_gpu) {
    device_ = device_at(plan, program.pipeline_rank, local_gpu);
  }

  CommunicatorMemory memory() {
    std::set<Index> segments;
    for (const Entry& entry : program_.entries)
      if (segments.insert(entry.segment).second)
        for (const Instruction& instruction : plan_.segments[entry.segment].instructions)
          if (instruction.communication != no_index) add(instruction);
    if (!peers_.empty()) add_transfers();
    return memory_;
  }

 private:
  void add(const Instruction& instruction) {
    const Communication& communication = plan_.communications[instruction.communication];
    if (instruction.opcode == Opcode::send || instruction.opcode == Opcode::recv) {
      const std::int64_t peer = peer_of(plan_, program_.pipeline_rank, communication, local_gpu_);
      if (peer >= 0 && peer != device_) peers_.insert(peer);
      return;
    }
    const Group& group = communication.group;
    const bool all_pairs = instruction.opcode == Opcode::all_to_all;
    const auto key = std::make_tuple(group.mesh, group.axes, group.pipeline_ranks);
    const bool first = groups_.insert(key).second;
    const bool first_of_pairs = all_pairs && paired_.insert(key).second;
    if (!first && !first_of_pairs) return;
    const std::vector<Index> instances = instance_of_devices(plan_, program_.pipeline_rank, group);
    const Devices members = group_instances(plan_, program_.pipeline_rank,
                                            group)[instances[static_cast<std::size_t>(local_gpu_)]];
    if (members.size() < 2) return;
    if (first) add_collectives(members);
    if (first_of_pairs)
      for (const std::int64_t peer : members)
        if (peer != device_) add_transfer(peer);
  }

  void add_collectives(const Devices& members) {
    const auto ranks = static_cast<double>(members.size());
    const double connections = 1 + 2 * (ranks - 1) / ranks;
    const auto buffers = static_cast<double>(channels(plan_, members, device_) *
                                             plan_.framework.memory.communicator_buffer_bytes);
    ++memory_.communicators;
    memory_.bytes += plan_.framework.memory.communicator_bytes + std::llround(buffers * connections);
  }

  void add_transfer(std::int64_t peer) {
    const FrameworkMemory& memory = plan_.framework.memory;
    const std::int64_t in_node = channels_in_node(plan_, {device_, peer});
    const std::int64_t channels =
        spans_nodes(plan_, {device_, peer}) ? std::min(in_node, channels_of_transfer_between_nodes) : in_node;
    memory_.bytes += channels * memory.communicator_buffer_bytes;
  }

  void add_transfers() {
    ++memory_.communicators;
    memory_.bytes += plan_.framework.memory.communicator_bytes;
    for (const std::int64_t peer : peers_) add_transfer(peer);
  }

  const Plan& plan_;
  const Program& program_;
  const std::int64_t local_gpu_;
  std::int64_t device_ = 0;
  std::set<std::tuple<std::uint8_t, std::vector<std::uint8_t>, std::vector<std::int32_t>>> groups_, paired_;
  std::set<std::int64_t> peers_;
  CommunicatorMemory memory_;
};

}  // namespace

CommunicatorMemory communicator_memory(const Plan& plan, const Program& program, std::int64_t local_gpu) {
  return Communicators(plan, program, local_gpu).memory();
}

}  // namespace simrun
