#include "schedules/alive_at_peak.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <tuple>

#include "schedules/buffer_instances.h"
#include "schedules/extent_tables.h"

namespace simrun {

namespace {

// Which buffers are alive in one microbatch. Those of wider scopes are kept under a microbatch of their own.
struct AliveBuffers {
  std::vector<bool> is_alive;  // by buffer
  std::size_t count = 0;
};
constexpr std::int64_t every_microbatch = -1;

class PeakWalk {
 public:
  PeakWalk(const Plan& plan, const Program& program)
      : plan_(plan),
        program_(program),
        layers_(plan.buffers.size(), -1),
        is_met_(plan.buffers.size(), false) {
    for (const Buffer& buffer : plan.buffers)
      if (buffer.parent != no_index) is_met_[buffer.parent] = true;  // a bucket is of many layers
  }

  // Until behind the peak's instruction. Whole entries up to it, whatever is in flight.
  void walk(const MemoryPeak& peak) {
    meet_run_scope();
    for (Index e = 0; e < program_.entries.size() && e <= peak.entry; ++e) {
      const Entry& entry = program_.entries[e];
      if (entry.steps == Steps::first_only) continue;  // of the first step; the peak is of a later one
      const std::vector<Instruction>& instructions = plan_.segments[entry.segment].instructions;
      const std::size_t end = e < peak.entry
                                  ? instructions.size()
                                  : std::min<std::size_t>(peak.instruction + 1, instructions.size());
      for (std::size_t i = 0; i < end; ++i) run(entry, instructions[i]);
    }
  }

  // What is alive now, on one of the rank's GPUs.
  std::vector<AliveTensors> alive(std::int64_t local_gpu) const {
    std::map<std::tuple<Category, std::string, std::int32_t>, AliveTensors> tensors;
    for (const auto& [microbatch, buffers] : alive_)
      for (Index b = 0; b < buffers.is_alive.size(); ++b) {
        const Buffer& buffer = plan_.buffers[b];
        if (!buffers.is_alive[b] || buffer.space != MemorySpace::device) continue;
        const auto number = static_cast<std::int32_t>(std::max<std::int64_t>(microbatch, 0) & 0xffffffff);
        const std::int64_t bytes = instance_bytes(plan_, buffer, {program_.pipeline_rank, local_gpu, number});
        if (bytes == 0) continue;
        AliveTensors& of = tensors[{buffer.category, buffer.name, layers_[b]}];
        of = {buffer.category, buffer.name, layers_[b], of.instances + 1, of.bytes + bytes};
      }
    std::vector<AliveTensors> list;
    list.reserve(tensors.size());
    for (const auto& [key, of] : tensors) list.push_back(of);
    std::stable_sort(list.begin(), list.end(), [](const AliveTensors& a, const AliveTensors& b) {
      return a.category != b.category ? a.category < b.category : a.bytes > b.bytes;
    });
    return list;
  }

 private:
  void meet(const Instruction& instruction, Index buffer) {
    if (is_met_[buffer]) return;
    is_met_[buffer] = true;
    layers_[buffer] = instruction.layer;
  }

  AliveBuffers& buffers_of(std::int64_t microbatch) {
    AliveBuffers& buffers = alive_[microbatch];
    if (buffers.is_alive.empty()) buffers.is_alive.resize(plan_.buffers.size(), false);
    return buffers;
  }

  void set(std::int64_t microbatch, Index buffer, bool is_alive) {
    AliveBuffers& buffers = buffers_of(microbatch);
    if (buffers.is_alive[buffer] == is_alive) return;
    buffers.is_alive[buffer] = is_alive;
    buffers.count += is_alive ? 1 : -1;
    if (buffers.count == 0) alive_.erase(microbatch);
  }

  // Buffers that the program touches anywhere and that live for ever.
  void meet_run_scope() {
    std::vector<bool> visited(plan_.segments.size(), false);
    for (const Entry& entry : program_.entries) {
      if (visited[entry.segment]) continue;
      visited[entry.segment] = true;
      for (const Instruction& instruction : plan_.segments[entry.segment].instructions)
        for (const auto* list : {&instruction.inputs, &instruction.outputs})
          for (const Index touched : *list) {
            const Index buffer = owner_of(plan_, touched);
            if (plan_.buffers[buffer].scope != Scope::run) continue;
            meet(instruction, buffer);
            set(every_microbatch, buffer, true);
          }
    }
  }

  std::int64_t microbatch_of(const Entry& entry, const Instruction& instruction, Index buffer) const {
    const Scope scope = plan_.buffers[buffer].scope;
    if (scope == Scope::step || scope == Scope::chunk) return every_microbatch;
    if (instruction.binding >= entry.binding_count) return 0;
    const Binding& bound = program_.bindings[entry.first_binding + instruction.binding];
    return (static_cast<std::int64_t>(bound.slice) << 32) + bound.microbatch;
  }

  void run(const Entry& entry, const Instruction& instruction) {
    const bool frees = instruction.opcode == Opcode::free;
    for (const Index touched : frees ? instruction.inputs : instruction.outputs) {
      if (frees && plan_.buffers[touched].parent != no_index) continue;
      const Index buffer = owner_of(plan_, touched);
      if (plan_.buffers[buffer].scope == Scope::run) continue;
      if (!frees) meet(instruction, buffer);
      set(microbatch_of(entry, instruction, buffer), buffer, !frees);
    }
  }

  const Plan& plan_;
  const Program& program_;
  std::map<std::int64_t, AliveBuffers> alive_;  // by microbatch and slice
  std::vector<std::int32_t> layers_;            // by buffer
  std::vector<bool> is_met_;                    // by buffer: its layer is known
};

std::int64_t total(const std::vector<AliveTensors>& tensors) {
  std::int64_t bytes = 0;
  for (const AliveTensors& of : tensors) bytes += of.bytes;
  return bytes;
}

}  // namespace

std::vector<AliveTensors> alive_at_peak(const Plan& plan, const RankTimeline& rank) {
  const auto place = static_cast<std::size_t>(rank.pipeline_rank);
  if (place >= plan.programs.size()) return {};
  const Program& program = plan.programs[place];
  PeakWalk walk(plan, program);
  walk.walk(rank.peak);
  for (const std::int64_t gpu : table_classes(plan, program).first_gpu) {
    std::vector<AliveTensors> alive = walk.alive(gpu);
    if (total(alive) == rank.peak.bytes) return alive;
  }
  return walk.alive(0);
}

}  // namespace simrun
