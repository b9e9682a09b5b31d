#include "sim/durations.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "sim/collective_cost.h"
#include "sim/exchange_groups.h"
#include "sim/kernel_cost.h"

namespace simrun {

namespace {

// The launch is paid whole. Rounded to the nearest picosecond, without the product's overflow.
Picoseconds share_of(Picoseconds whole, Picoseconds launch, std::int64_t work) {
  if (work == whole_work || whole <= launch) return whole;
  const Picoseconds busy = whole - launch;
  const double longest = static_cast<double>(busy) * static_cast<double>(work) / whole_work;
  if (longest * 1e-12 >= longest_instruction_s) return to_picoseconds(longest * 1e-12);  // throws
  return launch + busy / whole_work * work + (busy % whole_work * work + whole_work / 2) / whole_work;
}

}  // namespace

std::size_t Durations::KeyHash::operator()(const std::vector<Index>& key) const {
  std::size_t hash = 1469598103934665603u;  // FNV-1a, by word
  for (const Index word : key) hash = (hash ^ word) * 1099511628211u;
  return hash ^ (hash >> 29);
}

Durations::Durations(const Plan& plan, const InstructionCosts* measured, Durations* prices)
    : plan_(plan), topology_(plan.cluster), kinds_(plan.cluster), prices_(prices) {
  sized_.emplace_back(plan);
  for (std::size_t kind = 1; kind < kinds_.count(); ++kind)
    sized_.emplace_back(of_other_kinds_.emplace_back(priced_plan(plan, kinds_.gpu(kind))));
  if (measured != nullptr) take_measured(*measured);
  shape_of_buffer_.reserve(plan.buffers.size());
  for (const Buffer& buffer : plan.buffers) shape_of_buffer_.push_back(new_shape(buffer));
  if (plan.extent_tables.empty()) return;
  for (const Buffer& buffer : plan.buffers) buffer_varies_.push_back(has_table(plan, buffer));
}

void Durations::take_measured(const InstructionCosts& costs) {
  for (const Program& program : plan_.programs)
    for (Index s = 0; s < plan_.segments.size(); ++s) {
      const std::vector<Instruction>& instructions = plan_.segments[s].instructions;
      for (Index i = 0; i < instructions.size(); ++i)
        if (const std::optional<Picoseconds> took = costs.of({program.pipeline_rank, s, i}))
          measured_[{program.pipeline_rank, &instructions[i]}] = *took;
    }
}

const Picoseconds* Durations::measured(std::int32_t pipeline_rank, const Instruction& instruction) const {
  if (measured_.empty()) return nullptr;
  const auto found = measured_.find({pipeline_rank, &instruction});
  return found == measured_.end() ? nullptr : &found->second;
}

Index Durations::new_shape(const Buffer& buffer) {
  shape_key_.assign({static_cast<Index>(buffer.dtype), static_cast<Index>(buffer.space)});
  for (const BufferDim& dim : buffer.dims) {
    const auto extent = static_cast<std::uint64_t>(dim.extent);
    shape_key_.insert(shape_key_.end(),
                      {dim.name, static_cast<Index>(extent), static_cast<Index>(extent >> 32)});
  }
  return shapes_.emplace(shape_key_, static_cast<Index>(shapes_.size())).first->second;
}

Index Durations::shape_of(const Plan& sized, Index buffer) {
  if (buffer_varies_.empty() || !buffer_varies_[buffer]) return shape_of_buffer_[buffer];
  return new_shape(sized.buffers[buffer]);
}

bool Durations::varies(const Instruction& instruction) const {
  if (buffer_varies_.empty()) return false;
  const auto from_table = [&](Index buffer) { return buffer_varies_[buffer]; };
  return instruction.work_table >= 0 ||
         std::any_of(instruction.inputs.begin(), instruction.inputs.end(), from_table) ||
         std::any_of(instruction.outputs.begin(), instruction.outputs.end(), from_table);
}

Picoseconds Durations::of(std::int32_t pipeline_rank, const Instruction& instruction) {
  const bool computes = !is_communication(instruction.opcode);
  if (varies(instruction) || (computes && has_gpu_kinds())) return mean_time(pipeline_rank, instruction);
  if (computes) return kernel(0, plan_, instruction);
  return exchange_time(pipeline_rank, instruction, communicated_bytes(plan_, instruction));
}

Picoseconds Durations::exchange_time(std::int32_t pipeline_rank, const Instruction& instruction,
                                     double bytes) {
  if (bytes < 0) return 0;
  if (const Picoseconds* took = measured(pipeline_rank, instruction)) return *took;
  ExchangeCosts& costs = exchange(pipeline_rank, instruction);
  uniform_ = uniform_ && costs.is_uniform(bytes);
  return costs.together(bytes);
}

Picoseconds Durations::instance_time(std::int32_t pipeline_rank, const Instruction& instruction,
                                     const OwnInstance& instance) {
  if (instance.bytes < 0) return 0;
  return exchange(pipeline_rank, instruction).of_device(pipeline_rank, instance.local_index, instance.bytes);
}

double Durations::bytes_at(const TablePlace& place, const Instruction& instruction) {
  if (!varies(instruction)) return communicated_bytes(plan_, instruction);
  const std::int64_t work = work_at(plan_, instruction, place);
  if (work == 0) return -1;
  return communicated_bytes(sized_.front().at(place, instruction), instruction) *
         (static_cast<double>(work) / static_cast<double>(whole_work));
}

Picoseconds Durations::kernel_at(const TablePlace& place, const Instruction& instruction) {
  if (const Picoseconds* took = measured(place.pipeline_rank, instruction)) return *took;
  const std::size_t kind = kind_at(place);
  if (!varies(instruction)) return kernel(kind, plan_of(kind), instruction);
  const std::int64_t work = work_at(plan_, instruction, place);
  const Plan& sized = sized_[kind].at(place, instruction);
  if (work == 0 || !is_launched(sized, instruction)) return 0;
  return share_of(kernel(kind, sized, instruction), to_picoseconds(kinds_.gpu(kind).kernel_launch_s), work);
}

bool Durations::is_launched(const Plan& sized, const Instruction& instruction) const {
  return instruction.outputs.empty() ||
         std::any_of(instruction.outputs.begin(), instruction.outputs.end(), [&](Index output) {
           return !buffer_varies_[output] || sized.buffers[output].elements() > 0;
         });
}

// Only schedules are made by it: the engines take each GPU's and microbatch's own time.
Picoseconds Durations::mean_time(std::int32_t pipeline_rank, const Instruction& instruction) {
  const auto [classes, fresh] = classes_.try_emplace(pipeline_rank);
  if (fresh) classes->second = table_classes(plan_, plan_.programs[static_cast<std::size_t>(pipeline_rank)]);
  const std::int64_t rows = most_rows(plan_, instruction, pipeline_rank);
  Picoseconds longest = 0;
  for (const std::int64_t gpu : classes->second.first_gpu) {
    double sum = 0;
    for (std::int64_t row = 0; row < rows; ++row) {
      const TablePlace place{pipeline_rank, gpu, static_cast<std::int32_t>(row)};
      sum += static_cast<double>(is_communication(instruction.opcode)
                                     ? exchange_time(pipeline_rank, instruction, bytes_at(place, instruction))
                                     : kernel_at(place, instruction));
    }
    longest = std::max<Picoseconds>(longest, std::llround(sum / static_cast<double>(rows)));
  }
  return longest;
}

std::size_t Durations::kind_at(const TablePlace& place) const {
  return has_gpu_kinds() ? kinds_.of(device_at(plan_, place.pipeline_rank, place.local_gpu)) : 0;
}

Picoseconds Durations::kernel(std::size_t kind, const Plan& sized, const Instruction& instruction) {
  const auto flags =
      static_cast<Index>((instruction.accumulate ? 1 : 0) | (instruction.causal.on ? 2 : 0) |
                         (instruction.soft_cap ? 4 : 0) | (instruction.part.axes.empty() ? 0 : 8) |
                         (instruction.alibi ? 16 : 0) | (instruction.causal.chunked ? 32 : 0) | kind << 8);
  const auto window = static_cast<std::uint64_t>(instruction.causal.window);
  key_.assign({static_cast<Index>(instruction.opcode), static_cast<Index>(instruction.function), flags,
               static_cast<Index>(window), static_cast<Index>(window >> 32),
               std::bit_cast<Index>(instruction.dropout), static_cast<Index>(instruction.inputs.size())});
  for (const Index buffer : instruction.inputs) key_.push_back(shape_of(sized, buffer));
  for (const Index buffer : instruction.outputs) key_.push_back(shape_of(sized, buffer));
  if (const auto found = kernels_.find(key_); found != kernels_.end()) return found->second;
  const Picoseconds time = kernel_time(sized, instruction);
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
    const ServerGroup& servers = communication.servers;
    key.insert(key.end(), {-1, servers.dedicated ? 1 : 0, servers.one_sided ? 1 : 0});
    key.insert(key.end(), servers.members.begin(), servers.members.end());
  }
  // A map of coordinates is known by its communication, which is another plan's.
  if (prices_ != nullptr && communication.peer.coordinate_map.empty())
    if (const auto found = prices_->costs_.find(key); found != prices_->costs_.end())
      return *(known = &found->second);
  known = &costs_.try_emplace(key, topology_, plan_, pipeline_rank, instruction.opcode, communication)
               .first->second;
  return *known;
}

}  // namespace simrun
