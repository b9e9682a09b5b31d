#include "schedules/offloaded_state.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "schedules/parameter_buckets.h"

namespace simrun {
namespace {

MemorySpace space_of(OffloadTarget target) {
  return target == OffloadTarget::nvme ? MemorySpace::nvme : MemorySpace::host;
}

Index add(Plan& plan, Buffer buffer) {
  plan.buffers.push_back(std::move(buffer));
  return static_cast<Index>(plan.buffers.size() - 1);
}

// The last `part` elements of each flat buffer of a bucket's shard are offloaded.
class Offloader {
 public:
  Offloader(Plan& plan, std::int64_t owned, std::int64_t part) : plan_(plan), owned_(owned), part_(part) {}

  // Moves that part of a buffer of state to another memory; the rest, if any, stays under its index.
  Index move(Index& state, MemorySpace space) {
    if (state == no_index) return no_index;
    Buffer moved = plan_.buffers[state];
    moved.space = space;
    if (part_ == owned_) {
      plan_.buffers[state] = std::move(moved);
      return std::exchange(state, no_index);
    }
    moved.name += " offloaded";
    moved.dims.front().extent = part_;
    plan_.buffers[state].dims.front().extent = owned_ - part_;
    return add(plan_, std::move(moved));
  }

  // Both parts of a shard as views; the shard itself where all of it is offloaded.
  Index offloaded_part(Index shard) {
    return part_ == owned_ ? shard : view(shard, " offloaded", owned_ - part_, part_);
  }
  Index kept_part(Index shard) {
    return part_ == owned_ ? no_index : view(shard, " kept", 0, owned_ - part_);
  }

  // Room in the host's memory for the part of a buffer.
  Index in_host(Index like, Scope scope, const std::string& suffix) {
    if (like == no_index) return no_index;
    Buffer copy = plan_.buffers[like];
    copy.name += suffix;
    copy.space = MemorySpace::host;
    copy.scope = scope;
    copy.parent = no_index;
    copy.parent_offset = 0;
    return add(plan_, std::move(copy));
  }

 private:
  Index view(Index shard, const char* suffix, std::int64_t offset, std::int64_t elements) {
    Buffer part = plan_.buffers[shard];
    part.name += suffix;
    part.dims.front().extent = elements;
    part.parent = shard;
    part.parent_offset = offset;
    part.split.clear();  // of the rank's own shard: no place among ranks
    part.shard_of = no_index;
    return add(plan_, std::move(part));
  }

  Plan& plan_;
  const std::int64_t owned_, part_;
};

}  // namespace

void offload_weights(Plan& plan, ParameterBucket& bucket, OffloadTarget target) {
  if (target == OffloadTarget::none) return;
  plan.buffers[bucket.weight_shard].space = space_of(target);
  Buffer staged = plan.buffers[bucket.weight_shard];
  staged.scope = Scope::pass;
  staged.name += " staged";
  if (target == OffloadTarget::nvme) {
    staged.space = MemorySpace::host;
    bucket.host_weights = add(plan, staged);
  }
  staged.space = MemorySpace::device;
  staged.category = Category::comm;
  if (bucket.shards > 1) bucket.staged_weights = add(plan, staged);
}

void offload_state(Plan& plan, ParameterBucket& bucket, const Offload& offload) {
  if (offload.optimizer == OffloadTarget::none) return;
  const std::int64_t owned = plan.buffers[bucket.gradient_shard].elements();
  const std::int64_t part = std::clamp<std::int64_t>(
      std::llround(static_cast<double>(owned) * offload.optimizer_fraction), 1, owned);
  Offloader offloader(plan, owned, part);
  OffloadedState& state = bucket.offloaded;
  const MemorySpace space = space_of(offload.optimizer);
  state.main_weights = offloader.move(bucket.main_weights, space);
  state.exp_avg = offloader.move(bucket.exp_avg, space);
  state.exp_avg_sq = offloader.move(bucket.exp_avg_sq, space);
  if (space == MemorySpace::nvme) {
    state.staged_main = offloader.in_host(state.main_weights, Scope::step, " staged");
    state.staged_avg = offloader.in_host(state.exp_avg, Scope::step, " staged");
    state.staged_avg_sq = offloader.in_host(state.exp_avg_sq, Scope::step, " staged");
  }
  state.gradients = offloader.offloaded_part(bucket.gradient_shard);
  bucket.kept_gradients = offloader.kept_part(bucket.gradient_shard);
  state.host_gradients = offloader.in_host(state.gradients, Scope::run, " on host");
  if (offload.parameters == OffloadTarget::cpu) {
    state.host_weights = bucket.weight_shard;
  } else if (offload.parameters == OffloadTarget::nvme) {
    state.nvme_weights = bucket.weight_shard;
    state.host_weights = offloader.in_host(bucket.weight_shard, Scope::step, " updated");
  } else {
    state.weights = offloader.offloaded_part(bucket.weight_shard);
    bucket.kept_weights = offloader.kept_part(bucket.weight_shard);
    state.host_weights = offloader.in_host(state.weights, Scope::run, " on host");
  }
}

}  // namespace simrun
