#pragma once

#include <string>

#include "schedules/parameter_buckets.h"

namespace simrun {

// What the optimizer keeps of a bucket, as buffers of category `optimizer` that live for the whole run.
// Elements per parameter that a rank owns (1 / shards of the bucket):
//   main weights   1 in main_params_dtype, unless weights are fp32 themselves or none are asked for
//   adam, adamw    exp_avg and exp_avg_sq, 1 each (Kingma and Ba 2015; Loshchilov and Hutter 2019)
//   sgd            a momentum buffer in exp_avg_dtype, none if sgd_momentum is 0
//   adafactor      rows + columns of every matrix and the elements of vectors, in fp32 (adafactor_update.h)
//   muon           hidden matrices: a momentum buffer in exp_avg_dtype; the rest as adamw
// A moment in fp8 has a scale per tensor (Transformer Engine's FusedAdam), which is not counted; in uint8 an
// fp32 scale per 256 elements (bitsandbytes' blockwise quantisation, Dettmers et al. 2022).
void add_optimizer_state(Plan& plan, ParameterBucket& bucket, const std::string& name, Dtype precision,
                         const BucketRules& rules);

}  // namespace simrun
