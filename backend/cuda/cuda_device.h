#pragma once

#include <memory>

#include "backend/plugin.h"

namespace simrun::cuda {

// One rank on a GPU: local_rank modulo the number of GPUs, so that several ranks of a process may share one
// (virtual ranks), each with its own stream. Where all ranks of the plan are threads of this process,
// payloads stay in the GPU's memory. Throws std::runtime_error with CUDA's words.
std::unique_ptr<Device> make_cuda_device(const DeviceRequest& request);

// Why no device can be made; empty if one can.
std::string why_no_cuda();
std::vector<std::string> cuda_devices();

}  // namespace simrun::cuda
