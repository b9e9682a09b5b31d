#include "sim/framework_buffers.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "schedules/buffer_instances.h"
#include "schedules/update_operands.h"

namespace simrun {
namespace {

class Finder {
 public:
  explicit Finder(const Plan& plan) : plan_(plan), memory_(plan.framework.memory) {
    found_.kept_as.assign(plan.buffers.size(), HeldTensor::plan);
  }

  FrameworkBuffers run() {
    for (const Segment& segment : plan_.segments)
      gathers_again_ = gathers_again_ || std::ranges::any_of(segment.instructions, [&](const Instruction& i) {
                         return i.phase == Phase::recompute && gathers(i);
                       });
    for (const Segment& segment : plan_.segments)
      for (const Instruction& instruction : segment.instructions) {
        if (instruction.phase == Phase::forward) find_kept(instruction);
        if (instruction.opcode == Opcode::cross_entropy)
          found_.fp32_logits.insert(owner_of(plan_, instruction.inputs.at(0)));
        if (instruction.opcode == Opcode::optimizer) find_state(instruction);
        if (memory_.fsdp > 0 && segment.kind != PassKind::step) find_shards(instruction);
      }
    std::erase_if(found_.weight_shards, [&](Index shard) { return !copies_.contains(shard); });
    return std::move(found_);
  }

 private:
  bool gathers(const Instruction& instruction) const {
    return instruction.opcode == Opcode::all_gather &&
           plan_.streams[instruction.stream].traffic == Traffic::tensor;
  }

  // A checkpoint around a layer keeps nothing from within.
  void find_kept(const Instruction& instruction) {
    if (memory_.keeps_stage_outputs && instruction.opcode == Opcode::send)
      for (const Index buffer : instruction.inputs) kept(buffer) = HeldTensor::stage_outputs;
    if (!memory_.keeps_gathered_inputs || !gathers(instruction)) return;
    if (gathers_again_ && instruction.layer >= 0) return;
    for (const Index buffer : instruction.outputs) kept(buffer) = HeldTensor::saved;
  }
  HeldTensor& kept(Index buffer) { return found_.kept_as[owner_of(plan_, buffer)]; }

  void find_state(const Instruction& update) {
    const auto main = main_weights_of(plan_, update);
    if (main) copies_.insert(owner_of(plan_, update.outputs.front()));
    if (!memory_.lazy_optimizer_state) return;
    for (std::size_t output = 1; output < update.outputs.size(); ++output)
      if (output != main) found_.made_by_first_update.insert(owner_of(plan_, update.outputs[output]));
  }

  void find_shards(const Instruction& exchange) {
    if (exchange.opcode == Opcode::all_gather)
      insert(exchange.inputs, Category::weights, found_.weight_shards);
    if (exchange.opcode == Opcode::reduce_scatter)
      insert(exchange.outputs, Category::gradients, found_.gradient_shards);
  }
  void insert(const std::vector<Index>& buffers, Category category, std::set<Index>& shards) const {
    for (const Index buffer : buffers) {
      const Index owner = owner_of(plan_, buffer);
      if (plan_.buffers[owner].scope == Scope::run && plan_.buffers[owner].category == category)
        shards.insert(owner);
    }
  }

  const Plan& plan_;
  const FrameworkMemory& memory_;
  bool gathers_again_ = false;  // when a layer is recomputed
  std::set<Index> copies_;      // weights that have main parameters
  FrameworkBuffers found_;
};

}  // namespace

FrameworkBuffers framework_buffers(const Plan& plan) { return Finder(plan).run(); }

}  // namespace simrun
