#include "sim/durations.h"

#include <algorithm>
#include <bit>

#include "sim/kernel_cost.h"

namespace simrun {

std::size_t Durations::KeyHash::operator()(const std::vector<Index>& key) const {
  std::size_t hash = 1469598103934665603u;  // FNV-1a, by word
  for (const Index word : key) hash = (hash ^ word) * 1099511628211u;
  return hash ^ (hash >> 29);
}

Durations::Durations(const Plan& plan) : plan_(plan) {
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
  if (instruction.opcode != Opcode::send && instruction.opcode != Opcode::recv)
    return collective(pipeline_rank, instruction);
  const auto [found, fresh] = crosses_nodes_.try_emplace({pipeline_rank, instruction.communication}, false);
  if (fresh)
    found->second = crosses_nodes(plan_, pipeline_rank, plan_.communications.at(instruction.communication));
  return to_picoseconds(
      transfer_seconds(plan_.cluster, found->second, communicated_bytes(plan_, instruction)));
}

Picoseconds Durations::kernel(const Instruction& instruction) {
  const auto flags = static_cast<Index>((instruction.accumulate ? 1 : 0) | (instruction.causal ? 2 : 0));
  key_.assign({static_cast<Index>(instruction.opcode), static_cast<Index>(instruction.function), flags,
               std::bit_cast<Index>(instruction.dropout), static_cast<Index>(instruction.inputs.size())});
  for (const Index buffer : instruction.inputs) key_.push_back(shape_of_buffer_[buffer]);
  for (const Index buffer : instruction.outputs) key_.push_back(shape_of_buffer_[buffer]);
  if (const auto found = kernels_.find(key_); found != kernels_.end()) return found->second;
  const Picoseconds time = kernel_time(plan_, instruction);
  kernels_.emplace(key_, time);
  return time;
}

Picoseconds Durations::collective(std::int32_t pipeline_rank, const Instruction& instruction) {
  const Group& group = plan_.communications.at(instruction.communication).group;
  GroupKey key{pipeline_rank, {group.mesh}};
  key.second.insert(key.second.end(), group.axes.begin(), group.axes.end());
  key.second.push_back(-1);
  key.second.insert(key.second.end(), group.pipeline_ranks.begin(), group.pipeline_ranks.end());
  auto found = groups_.find(key);
  if (found == groups_.end())
    found = groups_.emplace(std::move(key), group_shapes(plan_, pipeline_rank, group)).first;
  const double bytes = communicated_bytes(plan_, instruction);
  double seconds = 0;
  for (const GroupShape& shape : found->second)
    seconds = std::max(seconds, collective_seconds(plan_.cluster, instruction.opcode, shape, bytes));
  return to_picoseconds(seconds);
}

}  // namespace simrun
