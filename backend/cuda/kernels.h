#pragma once

#include <cuda_runtime_api.h>

#include "backend/cuda/kernel_launch.h"

namespace simrun::cuda {

// Puts a kernel on a stream. REQUIRES: it is no Product. C++17, for nvcc.
template <class Math>
cudaError_t launch_kernel(const KernelLaunch<Math>& launch, cudaStream_t stream);

}  // namespace simrun::cuda
