#include "schedules/offload_segments.h"

#include "schedules/plan_frame.h"

namespace simrun {
namespace {

Instruction copy_of(const Plan& plan, const char* stream, std::vector<Index> from, std::vector<Index> to) {
  Instruction copy;
  copy.opcode = Opcode::copy;
  copy.phase = Phase::optimizer;
  copy.stream = stream_named(plan.streams, stream);
  copy.inputs = std::move(from);
  copy.outputs = std::move(to);
  copy.label = "offload";
  return copy;
}

Instruction free_all(std::vector<Index> buffers, Phase phase) {
  Instruction release;
  release.opcode = Opcode::free;
  release.phase = phase;
  release.inputs = std::move(buffers);
  return release;
}

// Of an offloaded part, those that there are: the state where it is kept, and where the host works on it.
std::vector<Index> kept_state(const OffloadedState& of) {
  std::vector<Index> state = {of.exp_avg, of.exp_avg_sq, of.main_weights};
  std::erase(state, no_index);
  return state;
}
std::vector<Index> working_state(const OffloadedState& of) {
  if (of.staged_avg == no_index) return kept_state(of);
  std::vector<Index> state = {of.staged_avg, of.staged_avg_sq, of.staged_main};
  std::erase(state, no_index);
  return state;
}

Instruction host_update(const UpdateContext& context, const OffloadedState& of) {
  const Plan& plan = context.plan;
  Instruction update;
  update.opcode = Opcode::optimizer;
  update.function = Function::adam;
  update.phase = Phase::optimizer;
  update.stream = stream_named(plan.streams, "host");
  const std::vector<Index> state = working_state(of);
  update.inputs = {of.host_gradients};
  update.outputs = {of.host_weights};
  update.inputs.insert(update.inputs.end(), state.begin(), state.end());
  update.outputs.insert(update.outputs.end(), state.begin(), state.end());
  // Without fp32 main weights the weights themselves are read.
  if (of.main_weights == no_index && of.nvme_weights == no_index) update.inputs.push_back(of.host_weights);
  if (context.norm != no_index) update.waits_for = {context.norm};
  update.constants = update_constants(context);
  update.label = "host optimizer";
  return update;
}

}  // namespace

std::vector<Instruction> fetch_weights(const Plan& plan, const ParameterBucket& bucket) {
  const MemorySpace space = plan.buffers[bucket.weight_shard].space;
  if (space == MemorySpace::device) return {};
  const Index target = bucket.staged_weights != no_index ? bucket.staged_weights : bucket.weights;
  std::vector<Instruction> instructions;
  Index source = bucket.weight_shard;
  if (space == MemorySpace::nvme) {
    instructions.push_back(copy_of(plan, "nvme_read", {source}, {bucket.host_weights}));
    source = bucket.host_weights;
  }
  instructions.push_back(copy_of(plan, "from_host", {source}, {target}));
  if (space == MemorySpace::nvme) instructions.push_back(free_all({bucket.host_weights}, Phase::reduction));
  return instructions;
}

std::vector<Instruction> release_fetched(const ParameterBucket& bucket) {
  if (bucket.staged_weights == no_index) return {};
  return {free_all({bucket.staged_weights}, Phase::reduction)};
}

std::vector<Instruction> gradients_to_host(const Plan& plan, const ParameterBucket& bucket) {
  const OffloadedState& of = bucket.offloaded;
  if (!of.any()) return {};
  return {copy_of(plan, "to_host", {of.gradients}, {of.host_gradients})};
}

std::vector<Instruction> host_optimizer(const UpdateContext& context,
                                        const std::vector<const ParameterBucket*>& buckets) {
  const Plan& plan = context.plan;
  std::vector<Instruction> instructions;
  const auto read = [&](std::size_t b) {
    if (b >= buckets.size() || buckets[b]->offloaded.staged_avg == no_index) return;
    const OffloadedState& of = buckets[b]->offloaded;
    instructions.push_back(copy_of(plan, "nvme_read", kept_state(of), working_state(of)));
    if (b >= 2) instructions.back().waits_for = {buckets[b - 2]->offloaded.exp_avg};
  };
  read(0);
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    const OffloadedState& of = buckets[b]->offloaded;
    if (!of.any()) continue;
    read(b + 1);
    instructions.push_back(host_update(context, of));
    if (of.staged_avg != no_index) {
      instructions.push_back(copy_of(plan, "nvme_write", working_state(of), kept_state(of)));
      instructions.push_back(free_all(working_state(of), Phase::optimizer));
    }
    if (of.weights != no_index)
      instructions.push_back(copy_of(plan, "from_host", {of.host_weights}, {of.weights}));
    if (of.nvme_weights != no_index) {
      instructions.push_back(copy_of(plan, "nvme_write", {of.host_weights}, {of.nvme_weights}));
      instructions.push_back(free_all({of.host_weights}, Phase::optimizer));
    }
  }
  return instructions;
}

}  // namespace simrun
