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
      for (const Instruction& instruction : segment.instructions)
        if (instruction.phase == Phase::recompute && gathers(instruction))
          gathered_again_.insert(instruction.layer);
    for (const Segment& segment : plan_.segments)
      for (const Instruction& instruction : segment.instructions) {
        if (instruction.phase == Phase::forward) find_kept(instruction);
        if (instruction.opcode == Opcode::cross_entropy) find_logits(instruction);
        if (instruction.opcode == Opcode::optimizer) find_state(instruction);
        // A checkpoint keeps what attention was called with, a masked fill which scores it filled.
        if (instruction.opcode == Opcode::attention &&
            (instruction.phase == Phase::recompute || instruction.function == Function::unfused))
          found_.keeps_attention_mask = true;
        if (memory_.fsdp > 0 && segment.kind != PassKind::step) find_gathered(instruction);
      }
    for (const auto& [weights, gradients] : updated_)
      if (found_.weight_shards.contains(weights)) found_.gradient_shards.insert(gradients);
    if (memory_.cross_entropy_chunks > 1)
      while (extend_logits()) continue;
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
    if (gathered_again_.contains(instruction.layer)) return;
    for (const Index buffer : instruction.outputs) kept(buffer) = HeldTensor::saved;
  }
  HeldTensor& kept(Index buffer) { return found_.kept_as[owner_of(plan_, buffer)]; }

  // What a job of fp32 computes with is no cast.
  void find_logits(const Instruction& loss) {
    const Index logits = owner_of(plan_, loss.inputs.at(0));
    found_.logits.insert(logits);
    if (bytes_of(plan_.job.precision) < bytes_of(plan_.buffers[logits].dtype))
      found_.cast_logits.insert(logits);
  }

  // From the loss back to the head's product (casts, caps, gathers), and on through the gradients to that
  // product's backward pass. Whether any was new.
  bool extend_logits() {
    const std::size_t before = found_.logits.size();
    const auto is_known = [&](Index buffer) { return found_.logits.contains(owner_of(plan_, buffer)); };
    for (const Segment& segment : plan_.segments)
      for (const Instruction& instruction : segment.instructions) {
        if (instruction.opcode == Opcode::gemm || instruction.opcode == Opcode::free) continue;
        if (instruction.phase == Phase::backward_input) {
          if (!std::ranges::any_of(instruction.inputs, is_known)) continue;
          for (const Index gradient : instruction.outputs) found_.logits.insert(owner_of(plan_, gradient));
        } else if (std::ranges::any_of(instruction.outputs, is_known) && !instruction.inputs.empty()) {
          found_.logits.insert(owner_of(plan_, instruction.inputs.front()));
        }
      }
    return found_.logits.size() > before;
  }

  void find_state(const Instruction& update) {
    const auto main = main_weights_of(plan_, update);
    const Index weights = update.outputs.front();
    if (main && owner_of(plan_, weights) == weights) found_.copies.insert(weights);
    updated_.emplace_back(weights, owner_of(plan_, update.inputs.front()));
    if (!memory_.lazy_optimizer_state) return;
    for (std::size_t output = 1; output < update.outputs.size(); ++output)
      if (output != main) found_.made_by_first_update.insert(owner_of(plan_, update.outputs[output]));
  }

  void find_gathered(const Instruction& exchange) {
    if (exchange.opcode != Opcode::all_gather) return;
    for (const Index buffer : exchange.inputs) {
      const Index owner = owner_of(plan_, buffer);
      if (plan_.buffers[owner].scope == Scope::run && plan_.buffers[owner].category == Category::weights)
        found_.weight_shards.insert(owner);
    }
  }

  const Plan& plan_;
  const FrameworkMemory& memory_;
  std::set<std::int32_t> gathered_again_;         // layers that are recomputed
  std::vector<std::pair<Index, Index>> updated_;  // weights with the owners of their gradients
  FrameworkBuffers found_;
};

}  // namespace

std::int64_t FrameworkBuffers::bytes_at_once(const FrameworkMemory& memory, Index buffer,
                                             std::int64_t bytes) const {
  const std::int64_t chunks = memory.cross_entropy_chunks;
  return logits.contains(buffer) ? (bytes + chunks - 1) / chunks : bytes;
}

std::int64_t FrameworkBuffers::held_bytes(const FrameworkMemory& memory, Index buffer,
                                          std::int64_t bytes) const {
  const std::int64_t at_once = bytes_at_once(memory, buffer, bytes);
  return memory.logits == LogitsTensors::half && cast_logits.contains(buffer) ? at_once / 2 : at_once;
}

FrameworkBuffers framework_buffers(const Plan& plan) { return Finder(plan).run(); }

}  // namespace simrun
