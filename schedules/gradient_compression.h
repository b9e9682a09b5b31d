#pragma once

#include <vector>

#include "schedules/parameter_buckets.h"

namespace simrun {

// Data-parallel sums in another type than that of the main gradients (PyTorch DDP's fp16_compress_hook and
// bf16_compress_hook; FSDP2's reduce_dtype): a bucket is cast on the compute stream, reduced, and cast back
// behind the reduction on its stream, as DDP's hooks do. A cast is one kernel that reads one type and writes
// the other. fp8's scales, one number per bucket, are not reduced.

// REQUIRES: the bucket has `compressed` and `compressed_shard`. `reduction`: from its gradients to their
// shard.
std::vector<Instruction> compressed(const Instruction& reduction, const ParameterBucket& bucket);

// ZeRO-2, 3: behind a backward pass, into the shard that is kept: cast, or (all but the first pass) added to
// it. REQUIRES: the bucket has `compressed` and `reduced`, in the type of the reduction.
std::vector<Instruction> compressed_of_pass(Instruction reduction, const ParameterBucket& bucket, bool first);

}  // namespace simrun
