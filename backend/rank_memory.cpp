#include "backend/rank_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace simrun {

RankMemory::RankMemory(const Plan& plan, Device& device, const RankPlace& place)
    : plan_(plan), device_(device), place_(place) {
  std::vector<bool> seen(plan.segments.size(), false);
  const auto touch = [&](Index buffer) {
    const Key key{owner_of(buffer), 0};
    if (plan_.buffers[key.first].scope == Scope::run && live_.find(key) == live_.end()) make(key);
  };
  for (const Entry& entry : plan.programs[static_cast<std::size_t>(place.pipeline_rank)].entries) {
    if (seen[entry.segment]) continue;
    seen[entry.segment] = true;
    for (const Instruction& what : plan.segments[entry.segment].instructions) {
      for (const Index buffer : what.inputs) touch(buffer);
      for (const Index buffer : what.outputs) touch(buffer);
    }
  }
}

RankMemory::Step RankMemory::end_step() { return std::exchange(recorded_, {stored_, {}}); }

RankMemory::~RankMemory() {
  for (const auto& [key, allocation] : live_) give_back(plan_.buffers[key.first], allocation);
}

void RankMemory::give_back(const Buffer& owner, const Allocation& allocation) {
  if (owner.space == MemorySpace::device)
    device_.release(allocation.memory, allocation.bytes);
  else
    device_.release_outside(allocation.memory);
}

Index RankMemory::owner_of(Index buffer) const {
  while (plan_.buffers[buffer].parent != no_index) buffer = plan_.buffers[buffer].parent;
  return buffer;
}

RankMemory::Key RankMemory::key_of(Instance instance) const {
  const Index owner = owner_of(instance.buffer);
  const Scope scope = plan_.buffers[owner].scope;
  const bool of_microbatch = scope == Scope::microbatch || scope == Scope::pass;
  return {owner, of_microbatch ? instance.microbatch : 0};
}

// [1, rows, ...]: all rows, whatever the plan expected.
static void count_rows(const ExpertRows& rows, TensorPart& part) {
  part[0] = {0, 1, 1};
  part[1] = {0, rows.size(), rows.size()};
}

RankMemory::Allocation& RankMemory::make(const Key& key, SharedRows rows) {
  const Buffer& owner = plan_.buffers[key.first];
  TensorPart part = part_of(plan_, owner, place_, key.second);
  if (rows != nullptr) {
    count_rows(*rows, part);
    recorded_.rows[{key.first, key.second, place_.local}] = rows->size();
  }
  const std::int64_t count = elements(part);
  const bool is_bucket = owner.dims.size() == 1 && plan_.dimension_names[owner.dims[0].name] == "elements";
  Allocation allocation;
  allocation.rows = std::move(rows);
  allocation.bytes = count * device_.element_bytes(owner.dtype);
  allocation.planned_bytes = owner.stored_bytes(count);
  const bool cleared = is_bucket || owner.scope == Scope::run;
  allocation.memory = owner.space == MemorySpace::device
                          ? device_.allocate(allocation.bytes, cleared)
                          : device_.allocate_outside(allocation.bytes, cleared);
  if (owner.space == MemorySpace::device) planned_ += allocation.planned_bytes;
  planned_peak_ = std::max(planned_peak_, planned_);
  if (owner.space == MemorySpace::device) stored_ += allocation.bytes;
  recorded_.peak_bytes = std::max(recorded_.peak_bytes, stored_);
  return live_[key] = allocation;
}

Argument RankMemory::argument(Instance instance, const Allocation& allocation) const {
  Index at = instance.buffer;
  const Buffer& buffer = plan_.buffers[at];
  Argument argument{&buffer, part_of(plan_, buffer, place_, instance.microbatch), allocation.memory,
                    allocation.rows};
  if (argument.rows != nullptr) count_rows(*argument.rows, argument.part);
  std::int64_t begin = 0;
  for (; plan_.buffers[at].parent != no_index; at = plan_.buffers[at].parent)
    begin += view_begin(plan_, plan_.buffers[at], place_);
  if (argument.data != nullptr)
    argument.data = static_cast<std::byte*>(argument.data) + begin * device_.element_bytes(buffer.dtype);
  return argument;
}

Argument RankMemory::read(Instance instance) {
  const auto at = live_.find(key_of(instance));
  if (at == live_.end())
    throw ExecutionError(fmt::format("reads '{}', which is not there", plan_.buffers[instance.buffer].name));
  return argument(instance, at->second);
}

Argument RankMemory::write(Instance instance, SharedRows rows) {
  const Key key = key_of(instance);
  const auto at = live_.find(key);
  return argument(instance, at == live_.end() ? make(key, std::move(rows)) : at->second);
}

void RankMemory::release(Instance instance) {
  const Buffer& buffer = plan_.buffers[instance.buffer];
  if (buffer.parent != no_index) throw ExecutionError(fmt::format("frees the view '{}'", buffer.name));
  const auto at = live_.find(key_of(instance));
  if (at == live_.end() || buffer.scope == Scope::run)
    throw ExecutionError(fmt::format("frees '{}', which {}", buffer.name,
                                     at == live_.end() ? "is not there" : "lives for the whole run"));
  give_back(buffer, at->second);
  if (buffer.space == MemorySpace::device) {
    planned_ -= at->second.planned_bytes;
    stored_ -= at->second.bytes;
  }
  live_.erase(at);
}

std::vector<std::string> RankMemory::left_over() const {
  std::vector<std::string> names;
  for (const auto& [key, allocation] : live_)
    if (plan_.buffers[key.first].scope != Scope::run)
      names.push_back(fmt::format("'{}' of microbatch {}", plan_.buffers[key.first].name, key.second));
  return names;
}

}  // namespace simrun
