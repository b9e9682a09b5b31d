#pragma once

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <stdexcept>

namespace simrun::cuda {

// "cudaErrorNoDevice (100): no CUDA-capable device is detected"
inline std::string words_of(cudaError_t error) {
  return fmt::format("{} ({}): {}", cudaGetErrorName(error), static_cast<int>(error),
                     cudaGetErrorString(error));
}

// Throws with the library's words. `what`: the call.
inline void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) throw std::runtime_error(fmt::format("{}: {}", what, words_of(error)));
}

}  // namespace simrun::cuda
