#pragma once

#include <functional>
#include <memory>
#include <thread>

#include "backend/cuda/kernel_launch.h"
#include "backend/cuda/lower.h"
#include "backend/device.h"

// The CUDA device without CUDA: the same launches on the host's memory, kernels by one lane or by several
// threads, matrix products by three loops. What a GPU adds is who runs them.
namespace simrun {

// Runs a kernel or product. `lanes`: threads that share a row.
template <class Math>
void run_on_host(const cuda::KernelLaunch<Math>& launch, int lanes);

enum class HostNumbers : std::uint8_t { f64, f32, by_dtype };

// A device on which whole plans can be run. `lanes` > 1 is slow.
std::unique_ptr<Device> make_cuda_host_device(HostNumbers numbers, int lanes = 1);

}  // namespace simrun
