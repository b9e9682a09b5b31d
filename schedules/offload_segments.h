#pragma once

#include <vector>

#include "schedules/optimizer_update.h"
#include "schedules/parameter_buckets.h"
#include "schedules/plan.h"

namespace simrun {

// What goes between the GPU, the host's memory and its drives around a step's passes: the instructions of
// ZeRO-Offload and ZeRO-Infinity. All empty for a bucket that has nothing there.

// A ZeRO-3 gather's first half: the rank's own shard to its GPU. The last COPY writes `bucket.staged_weights`
// or, where the shard is the whole bucket, `bucket.weights`.
std::vector<Instruction> fetch_weights(const Plan& plan, const ParameterBucket& bucket);
// What fetch_weights() leaves to free behind the gather.
std::vector<Instruction> release_fetched(const ParameterBucket& bucket);

// The gradients of the offloaded part to the host, once they are summed over all ranks.
std::vector<Instruction> gradients_to_host(const Plan& plan, const ParameterBucket& bucket);

// The host's share of the optimizer, bucket after bucket, and the new weights back to where they are kept. It
// begins when the norm, if there is one, is known. State on NVMe is read two buckets ahead: a third waits
// until the first is written back.
std::vector<Instruction> host_optimizer(const UpdateContext& context,
                                        const std::vector<const ParameterBucket*>& buckets);

}  // namespace simrun
