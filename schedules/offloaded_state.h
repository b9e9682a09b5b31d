#pragma once

#include <cstdint>
#include <string>

#include "configs/offload_config.h"
#include "schedules/plan.h"

namespace simrun {

// The part of a bucket's shard whose optimizer state is outside the GPU: the host runs the optimizer on it.
// All Plan buffers; no_index where there is none.
struct OffloadedState {
  // On the GPU, of this part: views of the shards, or the shards themselves if nothing is left of them.
  Index gradients = no_index, weights = no_index;
  // In host memory: the gradients as they arrive, and the new weights in the precision of training. With
  // parameters offloaded to the host these are the shard itself.
  Index host_gradients = no_index, host_weights = no_index;
  Index nvme_weights = no_index;  // the shard itself, if parameters are on NVMe
  // Where the optimizer's state is kept: in host memory or on NVMe, and then the host's copies while it
  // works.
  Index main_weights = no_index, exp_avg = no_index, exp_avg_sq = no_index;
  Index staged_main = no_index, staged_avg = no_index, staged_avg_sq = no_index;
  bool any() const { return host_gradients != no_index; }
};

struct ParameterBucket;

// Puts the weight shard of a bucket, which is all that is kept of its weights, into another memory.
void offload_weights(Plan& plan, ParameterBucket& bucket, OffloadTarget target);
// Moves the last optimizer_fraction of a bucket's state. Behind the declaration of all its buffers.
void offload_state(Plan& plan, ParameterBucket& bucket, const Offload& offload);

}  // namespace simrun
