#pragma once

#include <cstdint>
#include <memory>

#include "backend/cuda/kernel_launch.h"
#include "backend/cuda/nccl_table.h"
#include "backend/device.h"

// The CUDA device without CUDA: the same launches on the host's memory, kernels by one lane or by several
// threads, matrix products by three loops. What a GPU adds is who runs them.
namespace simrun {

// Runs a kernel or product. `lanes`: threads that share a row.
template <class Math>
void run_on_host(const cuda::KernelLaunch<Math>& launch, int lanes);

enum class HostNumbers : std::uint8_t { f64, f32, by_dtype };

// A device on which whole plans can be run. `lanes` > 1 is slow. With `nccl` its communication goes through
// these functions, else by messages.
std::unique_ptr<Device> make_cuda_host_device(HostNumbers numbers, int lanes = 1,
                                              const cuda::NcclTable* nccl = nullptr);

// NCCL among threads, on the host's memory: collectives wait for all members and check that these call alike.
// Communicators are ready only when they are asked the second time.
const cuda::NcclTable& threads_nccl();

}  // namespace simrun
