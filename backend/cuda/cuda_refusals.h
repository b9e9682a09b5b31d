#pragma once

#include <string>

#include "backend/cuda/lower.h"
#include "schedules/plan.h"

namespace simrun::cuda {

// Why the CUDA device has no kernel for an instruction, with the config key; empty if it has. Whatever is not
// known here is refused: an instruction's new field or function must not run with its old meaning.
std::string cuda_refusal(const Plan& plan, const Instruction& what, NumberStorage storage);

// Bytes of an element as the device stores it. `real`: those of its number type where it has one only.
std::int64_t stored_bytes(Dtype dtype, std::size_t real, NumberStorage storage);
// The same as one of NCCL's types.
int nccl_type(Dtype dtype, std::size_t real, NumberStorage storage);

}  // namespace simrun::cuda
