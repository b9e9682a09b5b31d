#include "sim/durations.h"

#include <algorithm>
#include <bit>

#include "sim/collective_cost.h"
#include "sim/kernel_cost.h"

namespace simrun {

std::size_t Durations::KeyHash::operator()(const std::vector<Index>& key) const {
  std::size_t hash = 1469598103934665603u;  // FNV-1a, by word
  for (const Index word : key) hash = (hash ^ word) * 1099511628211u;
  return hash ^ (hash >> 29);
}

Durations::Durations(const Plan& plan) : plan_(plan), topology_(plan.cluster) {
  std::unordered_map<std::vector<Index>, Index, KeyHash> shapes;
  shape_of_buffer_.reserve(plan.buffers.size());
  for (const Buffer& buffer : plan.buffers) {
    key_.assign(1, static_cast<Index>(buffer.dtype));
    for (const BufferDim& dim : buffer.dims) {
      const auto extent = static_cast<std::uint64_t>(dim.extent);
      key_.insert(key_.end(), {dim.name, static_cast<Index>(extent), static_cast<Index>(extent >> 32)});
    }
    shape_of_buffer_.push_back(shapes.emplace(key_, static_cast<Index>(shapes.size())).first->second);
  }
}

Picoseconds Durations::of(std::int32_t pipeline_rank, const Instruction& instruction) {
  if (!is_communication(instruction.opcode)) return kernel(instruction);
  ExchangeCosts& costs = exchange(pipeline_rank, instruction);
  const double bytes = communicated_bytes(plan_, instruction);
  uniform_ = uniform_ && costs.is_uniform(bytes);
  return costs.together(bytes);
}

Picoseconds Durations::instance_time(std::int32_t pipeline_rank, const Instruction& instruction,
                                     std::int64_t local_index) {
  if (!is_communication(instruction.opcode)) return kernel(instruction);
  return exchange(pipeline_rank, instruction)
      .of_device(pipeline_rank, local_index, communicated_bytes(plan_, instruction));
}

Picoseconds Durations::kernel(const Instruction& instruction) {
  const auto flags = static_cast<Index>((instruction.accumulate ? 1 : 0) | (instruction.causal.on ? 2 : 0));
  const auto window = static_cast<std::uint64_t>(instruction.causal.window);
  key_.assign({static_cast<Index>(instruction.opcode), static_cast<Index>(instruction.function), flags,
               static_cast<Index>(window), static_cast<Index>(window >> 32),
               std::bit_cast<Index>(instruction.dropout), static_cast<Index>(instruction.inputs.size())});
  for (const Index buffer : instruction.inputs) key_.push_back(shape_of_buffer_[buffer]);
  for (const Index buffer : instruction.outputs) key_.push_back(shape_of_buffer_[buffer]);
  if (const auto found = kernels_.find(key_); found != kernels_.end()) return found->second;
  const Picoseconds time = kernel_time(plan_, instruction);
  kernels_.emplace(key_, time);
  return time;
}

ExchangeCosts& Durations::exchange(std::int32_t pipeline_rank, const Instruction& instruction) {
  ExchangeCosts*& known = exchanges_[{pipeline_rank, instruction.communication, instruction.opcode}];
  if (known != nullptr) return *known;
  const Communication& communication = plan_.communications.at(instruction.communication);
  const Group& group = communication.group;
  GroupKey key{static_cast<std::int32_t>(instruction.opcode), group.mesh};
  if (instruction.opcode == Opcode::send || instruction.opcode == Opcode::recv) {
    const Peer& peer = communication.peer;
    key.insert(key.end(), {pipeline_rank, peer.pipeline_rank, peer.offset, peer.wrap ? 1 : 0});
    key.insert(key.end(), peer.axes.begin(), peer.axes.end());
    if (!peer.coordinate_map.empty()) key.push_back(static_cast<std::int32_t>(instruction.communication));
  } else {
    if (group.pipeline_ranks.empty()) key.push_back(pipeline_rank);
    key.push_back(-1);
    key.insert(key.end(), group.axes.begin(), group.axes.end());
    key.push_back(-1);
    key.insert(key.end(), group.pipeline_ranks.begin(), group.pipeline_ranks.end());
  }
  known = &costs_.try_emplace(key, topology_, plan_, pipeline_rank, instruction.opcode, communication)
               .first->second;
  return *known;
}

}  // namespace simrun
