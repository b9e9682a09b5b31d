#include "sim/allocation_replay.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "configs/node_groups.h"
#include "schedules/stage_sizes.h"
#include "sim/exchange_groups.h"
#include "sim/framework_buffers.h"
#include "sim/saved_multiples.h"
#include "sim/score_tensors.h"
#include "sim/steady_phase.h"
#include "sim/step_tensors.h"

namespace simrun {

namespace {

// What a forward pass leaves for the backward pass of the same microbatch.
struct KeptTensor {
  Index chunk = 0;
  std::int64_t microbatch = 0;
  Held held;
};

class Replay {
 public:
  Replay(const Plan& plan, const Program& program, std::int64_t local_gpu, CachingRules rules)
      : plan_(plan),
        program_(program),
        memory_(plan.framework.memory),
        local_gpu_(local_gpu),
        allocations_(memory_, rules),
        buffers_(framework_buffers(plan)),
        unborn_state_(buffers_.made_by_first_update),
        saved_(memory_) {}

  // Moments that the first update makes take what that step has left free in pieces, and cut the large ones:
  // the next step's largest tensors need new memory.
  ReplayedStep run() {
    hold_run_scope();
    if (!unborn_state_.empty()) {
      replay_step(WhichStep::first);
      end_step();
    }
    replay_step(WhichStep::steady);
    return allocations_.result();
  }

 private:
  static constexpr Index kept_periods = 4;

  void replay_step(WhichStep which) {
    const SteadyPhase steady = steady_phase(program_);
    const Index periods = steady.period == 0 ? 0 : (steady.end - steady.begin) / steady.period;
    const Index skipped = periods > kept_periods ? periods - kept_periods : 0;
    const Index skip_at = steady.begin + kept_periods / 2 * steady.period;
    for (Index e = 0; e < program_.entries.size(); ++e) {
      if (skipped > 0 && e == skip_at) {
        rename(static_cast<std::int64_t>(skipped) * steady.shift);
        e += skipped * steady.period;
      }
      if (runs_in(program_.entries[e].steps, which)) replay(program_.entries[e]);
    }
  }

  // What a step leaves is gone when the next one begins: zero_grad() sets gradients to None.
  void end_step() {
    std::vector<Held> left;
    for (auto* tensors : {&live_, &saved_beside_}) {
      for (const auto& [key, held] : *tensors) left.push_back(held);
      tensors->clear();
    }
    std::ranges::sort(left, {}, &Held::block);
    for (const Held& held : left) allocations_.give_back(held);
    for (const Held& gradient : live_gradients_) allocations_.give_back(gradient);
    for (const KeptTensor& kept : until_backward_) allocations_.give_back(kept.held);
    for (auto* copy : {&gathered_, &reduced_}) {
      if (*copy) allocations_.give_back(**copy);
      copy->reset();
    }
    live_gradients_.clear();
    until_backward_.clear();
    born_gradients_.clear();
    written_gradients_.clear();
  }

  const Mesh& mesh() const {
    return plan_.stages[static_cast<std::size_t>(program_.pipeline_rank)].meshes.front();
  }

  // Tensors of the framework's own that live for the whole run, and the plan's.
  void hold_run_scope() {
    const Gpu& gpu = gpu_at(plan_.cluster, device_at(plan_, program_.pipeline_rank, local_gpu_));
    for (std::int64_t i = 0; i < memory_.matmul_workspaces; ++i)
      keep(gpu.matmul_workspace_bytes, HeldTensor::workspaces);
    keep(memory_.other_workspace_bytes, HeldTensor::workspaces);
    hold_plan_of_run();
    if (ranks_along(mesh(), "dp") * plan_.job.context_parallel > 1)
      keep(static_cast<std::int64_t>(parameters_ * memory_.bucket_bytes_per_parameter),
           HeldTensor::gradient_bucket);
  }

  void hold_plan_of_run() {
    std::set<Index> segments, owners;
    for (const Entry& entry : program_.entries)
      if (segments.insert(entry.segment).second)
        for (const Instruction& i : plan_.segments[entry.segment].instructions) {
          for (const Index buffer : i.inputs) owners.insert(owner_of(plan_, buffer));
          for (const Index buffer : i.outputs) owners.insert(owner_of(plan_, buffer));
        }
    for (const Index owned : owners) {
      const Buffer& buffer = plan_.buffers[owned];
      if (buffer.scope != Scope::run) continue;
      const bool is_late = born_in_backward(owned) || unborn_state_.contains(owned);
      const bool is_copy = buffers_.weight_shards.contains(owned) && buffers_.copies.contains(owned);
      if (!is_late && !is_copy) hold(owned, 0, HeldTensor::plan);
      if (buffer.category == Category::weights) parameters_ += static_cast<double>(buffer.elements());
    }
  }

  // A main gradient that is autograd's own param.grad: the optimizer sets it to None, so that the first
  // backward pass of each step allocates it again, from what the loss has left free.
  bool born_in_backward(Index owned) const {
    if (buffers_.gradient_shards.contains(owned)) return true;
    const Buffer& buffer = plan_.buffers[owned];
    return memory_.weight_gradients == WeightGradients::per_parameter &&
           buffer.category == Category::gradients && buffer.dtype == plan_.job.precision;
  }

  void keep(std::int64_t bytes, HeldTensor kind) {
    if (bytes > 0) allocations_.take(bytes, kind);
  }

  std::optional<Held> hold(Index buffer, std::int64_t microbatch, HeldTensor kind) {
    const Buffer& owned = plan_.buffers[buffer];
    if (owned.space != MemorySpace::device) return {};
    const auto bound = static_cast<std::int32_t>(microbatch & 0xffffffff);
    const std::int64_t bytes = instance_bytes(plan_, owned, {program_.pipeline_rank, local_gpu_, bound});
    return allocations_.take(buffers_.held_bytes(memory_, buffer, bytes), kind);
  }

  std::int64_t microbatch_of(const Entry& entry, std::uint8_t binding) const {
    if (binding >= entry.binding_count) return 0;
    const Binding& bound = program_.bindings[entry.first_binding + binding];
    return (static_cast<std::int64_t>(bound.slice) << 32) + bound.microbatch;
  }

  TensorKey key_of(const Entry& entry, const Instruction& instruction, Index owned) const {
    const Scope scope = plan_.buffers[owned].scope;
    if (scope == Scope::step || scope == Scope::chunk) return {-1, owned};
    return {microbatch_of(entry, instruction.binding), owned};
  }

  void replay(const Entry& entry) {
    begin(entry);
    for (const Instruction& instruction : plan_.segments[entry.segment].instructions) {
      if (instruction.opcode == Opcode::free) {
        for (const Index buffer : instruction.inputs)
          if (plan_.buffers[buffer].parent == no_index) release(entry, instruction, buffer);
        continue;
      }
      for (const Index buffer : instruction.outputs) {
        const Index owned = owner_of(plan_, buffer);
        if (plan_.buffers[owned].scope == Scope::run) {
          bear(owned);
          continue;
        }
        const TensorKey key = key_of(entry, instruction, owned);
        if (live_.contains(key)) continue;
        const std::int64_t microbatch = microbatch_of(entry, instruction.binding);
        if (const auto held = hold(owned, microbatch, HeldTensor::plan)) live_.emplace(key, *held);
      }
      hold_beside(entry, instruction);
    }
    end(entry);
  }

  // A buffer of the whole run that is written: for the first time, if it was not there before.
  void bear(Index owned) {
    if (unborn_state_.erase(owned) > 0) hold(owned, 0, HeldTensor::plan);
    if (!born_in_backward(owned) || !born_gradients_.insert(owned).second) return;
    if (plan_.buffers[owned].space != MemorySpace::device) return;
    const std::int64_t bytes =
        instance_bytes(plan_, plan_.buffers[owned], {program_.pipeline_rank, local_gpu_, 0});
    const bool is_shard = buffers_.gradient_shards.contains(owned);
    live_gradients_.push_back(
        allocations_.take(bytes, HeldTensor::plan, is_shard ? StreamPool::reduce : StreamPool::compute));
  }

  // ---- The framework's tensors ----

  void begin(const Entry& entry) {
    const Segment& segment = plan_.segments[entry.segment];
    if (segment.kind == PassKind::step) hold_step(segment);
    if (segment.kind == PassKind::forward || segment.kind == PassKind::overlapped) hold_mask(entry);
  }

  void hold_mask(const Entry& entry) {
    if (memory_.attention_mask == AttentionMask::none || entry.binding_count == 0) return;
    const std::int32_t stage = plan_.chunks[program_.bindings[entry.first_binding].chunk].stage;
    const bool is_at_end = stage == 0 || stage == plan_.chunks.back().stage;
    if (memory_.attention_mask == AttentionMask::first_and_last_stage && !is_at_end) return;
    // Of a context-parallel rank the rows of its own tokens.
    const std::int64_t bytes = plan_.job.seq_length * plan_.job.seq_length / plan_.job.context_parallel;
    const Held mask = allocations_.take(bytes, HeldTensor::attention_mask);
    if (buffers_.keeps_attention_mask)
      keep_until_backward(entry, 0, mask);
    else
      of_entry_.push_back(mask);
  }

  // Until the step's segment ends, which begins when the last backward pass has.
  void hold_step(const Segment& segment) {
    double owned = 0;
    for (const Instruction& instruction : segment.instructions)
      if (instruction.opcode == Opcode::optimizer && !instruction.outputs.empty())
        owned += static_cast<double>(plan_.buffers[instruction.outputs.front()].elements());
    hold_for_entry(static_cast<double>(memory_.gradient_bucket_bytes), HeldTensor::gradient_bucket);
    hold_for_entry(
        owned * memory_.step_bytes_per_parameter + parameters_ * memory_.step_bytes_per_held_parameter,
        HeldTensor::optimizer_step);
  }

  void hold_for_entry(double bytes, HeldTensor kind) {
    if (bytes >= 1) of_entry_.push_back(allocations_.take(static_cast<std::int64_t>(bytes), kind));
  }

  void end(const Entry& entry) {
    for (const Held& held : of_entry_) allocations_.give_back(held);
    of_entry_.clear();
    const PassKind kind = plan_.segments[entry.segment].kind;
    if (kind == PassKind::backward || kind == PassKind::backward_input) let_go(entry, 0);
    if (kind == PassKind::overlapped) let_go(entry, 1);
  }

  void keep_until_backward(const Entry& entry, std::uint8_t binding, const Held& held) {
    until_backward_.push_back(
        {program_.bindings[entry.first_binding + binding].chunk, microbatch_of(entry, binding), held});
  }

  void let_go(const Entry& entry, std::uint8_t binding) {
    if (binding >= entry.binding_count) return;
    const Index chunk = program_.bindings[entry.first_binding + binding].chunk;
    const std::int64_t microbatch = microbatch_of(entry, binding);
    std::erase_if(until_backward_, [&](const KeptTensor& kept) {
      const bool over = kept.chunk == chunk && kept.microbatch == microbatch;
      if (over) allocations_.give_back(kept.held);
      return over;
    });
  }

  // FSDP2 gathers into a buffer of which the weights are copies, kept until the next one has been gathered,
  // and reduces a copy of the gradients in fp32; both are of the streams of these exchanges, whose free
  // memory no other stream gets (fully_shard/_fsdp_collectives.py, _fsdp_param_group.py).
  void hold_unit_copies(const Instruction& instruction) {
    const auto copy = [&](std::optional<Held>& last, std::int64_t bytes, StreamPool pool, bool overlaps) {
      if (last && !overlaps) allocations_.give_back(*last);
      const Held now = allocations_.take(bytes, HeldTensor::exchange_buffers, pool);
      if (last && overlaps) allocations_.give_back(*last);
      last = now;
    };
    if (instruction.opcode == Opcode::all_gather && !instruction.inputs.empty() &&
        buffers_.weight_shards.contains(owner_of(plan_, instruction.inputs.at(0))))
      copy(gathered_, stored_bytes(instruction.outputs), StreamPool::gather, true);
    if (instruction.opcode == Opcode::reduce_scatter && !buffers_.weight_shards.empty() &&
        plan_.streams[instruction.stream].traffic == Traffic::data) {
      std::int64_t elements = 0;
      for (const Index buffer : instruction.inputs) elements += plan_.buffers[buffer].elements();
      const Dtype reduced = plan_.buffers[instruction.outputs.at(0)].dtype;
      copy(reduced_, elements * bytes_of(reduced), StreamPool::reduce, false);
    }
  }
  std::int64_t stored_bytes(const std::vector<Index>& buffers) const {
    std::int64_t bytes = 0;
    for (const Index buffer : buffers) bytes += plan_.buffers[buffer].stored_bytes();
    return bytes;
  }

  // Tensors that come to life with an instruction.
  void hold_beside(const Entry& entry, const Instruction& instruction) {
    if (memory_.fsdp == 2) hold_unit_copies(instruction);
    if (memory_.weight_gradients != WeightGradients::in_place && !is_communication(instruction.opcode))
      for (const Index buffer : instruction.outputs) hold_weight_gradient(instruction, buffer);
    if (instruction.opcode == Opcode::cross_entropy) hold_loss(instruction);
    hold_scores(entry, instruction);
    if (instruction.phase != Phase::forward && instruction.phase != Phase::recompute) return;
    const double saved = saved_.beside(plan_, instruction);
    if (saved <= 0 || instruction.outputs.empty()) return;
    const Index output = owner_of(plan_, instruction.outputs.front());
    const auto live = live_.find(key_of(entry, instruction, output));
    if (live == live_.end()) return;
    hold_beside(entry, instruction, output,
                static_cast<std::int64_t>(saved * static_cast<double>(live->second.bytes)));
  }

  // As long as the tensor of that buffer.
  void hold_beside(const Entry& entry, const Instruction& instruction, Index buffer, std::int64_t bytes) {
    const TensorKey key = key_of(entry, instruction, buffer);
    if (bytes > 0 && live_.contains(key) && !saved_beside_.contains(key))
      saved_beside_.emplace(key, allocations_.take(bytes, HeldTensor::saved));
  }

  void hold_scores(const Entry& entry, const Instruction& instruction) {
    const ScoreTensors scores = score_tensors(plan_, instruction);
    if (scores.kept > 0)  // outputs: context, probabilities, ...
      hold_beside(entry, instruction, owner_of(plan_, instruction.outputs.at(1)), scores.kept);
    if (scores.brief > 0) allocations_.give_back(allocations_.take(scores.brief, HeldTensor::scores));
  }

  // While the loss is computed: of the rank's logits, or of those of all tensor-parallel ranks where each of
  // them has all, its own fp32 ones among them. Each fp32 copy is a tensor of its own.
  void hold_loss(const Instruction& instruction) {
    const Index scored = owner_of(plan_, instruction.inputs[0]);
    const auto logits =
        static_cast<double>(buffers_.bytes_at_once(memory_, scored, plan_.buffers[scored].bytes()));
    const double whole = saved_.gathered_logits * static_cast<double>(ranks_along(mesh(), "tp"));
    const double copies = memory_.loss_copies + std::max(whole - 1, 0.0);
    const double of_one = whole > 0 ? static_cast<double>(ranks_along(mesh(), "tp")) * logits : logits;
    std::vector<Held> held;
    for (double left = copies * logits; left >= 1; left -= of_one)
      held.push_back(allocations_.take(static_cast<std::int64_t>(std::min(left, of_one)), HeldTensor::loss));
    for (const Held& copy : held) allocations_.give_back(copy);
  }

  void hold_weight_gradient(const Instruction& instruction, Index buffer) {
    const Buffer& gradient = plan_.buffers[buffer];
    if (gradient.category != Category::gradients || gradient.parameter == no_index) return;
    if (instruction.phase != Phase::backward_weight && instruction.phase != Phase::backward_input) return;
    if (born_in_backward(owner_of(plan_, buffer)) && written_gradients_.insert(buffer).second)
      return;  // the first is param.grad itself
    const std::int64_t bytes = bytes_of(plan_.job.precision) * gradient.elements();
    const Held held = allocations_.take(bytes, HeldTensor::weight_gradients);
    if (memory_.weight_gradients == WeightGradients::per_pass)
      of_entry_.push_back(held);
    else
      allocations_.give_back(held);
  }

  // FREE of a buffer; of one that was sent to the next stage not before its backward pass, where the
  // framework keeps those.
  void release(const Entry& entry, const Instruction& instruction, Index buffer) {
    const TensorKey key = key_of(entry, instruction, buffer);
    if (const auto beside = saved_beside_.find(key); beside != saved_beside_.end()) {
      allocations_.give_back(beside->second);
      saved_beside_.erase(beside);
    }
    const auto found = live_.find(key);
    if (found == live_.end()) return;
    if (buffers_.kept_as[buffer] != HeldTensor::plan && entry.binding_count > 0 &&
        instruction.phase == Phase::forward)
      keep_until_backward(entry, instruction.binding,
                          allocations_.relabelled(found->second, buffers_.kept_as[buffer]));
    else
      allocations_.give_back(found->second);
    live_.erase(found);
  }

  // What belongs to a microbatch is from now on of the one that is so many later.
  void rename(std::int64_t microbatches) {
    for (auto* tensors : {&live_, &saved_beside_}) {
      Tensors renamed;
      for (const auto& [key, held] : *tensors)
        renamed.emplace(TensorKey{key.microbatch < 0 ? -1 : key.microbatch + microbatches, key.buffer}, held);
      *tensors = std::move(renamed);
    }
    for (KeptTensor& kept : until_backward_) kept.microbatch += microbatches;
  }

  const Plan& plan_;
  const Program& program_;
  const FrameworkMemory& memory_;
  const std::int64_t local_gpu_;
  Allocations allocations_;
  const FrameworkBuffers buffers_;
  std::set<Index> unborn_state_;  // of buffers_.made_by_first_update those that no update has made yet
  std::optional<Held> gathered_, reduced_;  // FSDP2's last copies of a unit
  const SavedMultiples saved_;
  Tensors live_, saved_beside_;
  std::set<Index> written_gradients_;  // views of such, once written
  std::set<Index> born_gradients_;     // of this step
  std::vector<Held> live_gradients_;   // likewise
  double parameters_ = 0;              // of the rank, as far as it holds them between passes
  std::vector<Held> of_entry_;         // until the entry has ended
  std::vector<KeptTensor> until_backward_;
};

}  // namespace

ReplayedStep replay_allocations(const Plan& plan, const Program& program, std::int64_t local_gpu,
                                CachingRules rules) {
  return Replay(plan, program, local_gpu, rules).run();
}

}  // namespace simrun
