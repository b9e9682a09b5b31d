#pragma once

#include <memory>
#include <string>

#include "backend/execute.h"

// Devices of plugins, by ExecutionDevice.
namespace simrun {

bool is_cuda(ExecutionDevice device);

// Why there is no such device on this machine, as the plugin or the loader says it; empty: there is.
std::string why_no_cuda_device();

// 0: none.
int cuda_devices_here();

// Of a rank, on its own thread. REQUIRES: is_cuda(options.device), why_no_cuda_device() has nothing to say.
std::unique_ptr<Device> make_cuda_plugin_device(const ExecuteOptions& options, std::int64_t rank);

}  // namespace simrun
