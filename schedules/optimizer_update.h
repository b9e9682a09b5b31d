#pragma once

#include "configs/training_config.h"
#include "schedules/parameter_buckets.h"

namespace simrun {

// The optimizer's kernel over what a rank owns of a bucket: reads gradients and state, writes state and
// weights. `norm`: of all gradients, to clip by; no_index: none.
Instruction optimizer_update(const ParameterBucket& bucket, Index norm, const OptimizerConfig& optimizer);

}  // namespace simrun
