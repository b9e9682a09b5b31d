#include "backend/plugin_device.h"

#include "backend/plugin.h"

namespace simrun {
namespace {

// Opened once: CUDA stays in the process anyway.
const LoadedPlugin& cuda_plugin() {
  static const LoadedPlugin plugin = load_plugin("cuda");
  return plugin;
}

RealType real_of(ExecutionDevice device) {
  return device == ExecutionDevice::cuda_f64   ? RealType::f64
         : device == ExecutionDevice::cuda_f32 ? RealType::f32
                                               : RealType::bf16;
}

}  // namespace

bool is_cuda(ExecutionDevice device) { return device >= ExecutionDevice::cuda_f64; }

std::string why_no_cuda_device() { return cuda_plugin().why_not; }

int cuda_devices_here() {
  return cuda_plugin().usable() ? static_cast<int>(cuda_plugin().functions->devices().size()) : 0;
}

std::unique_ptr<Device> make_cuda_plugin_device(const ExecuteOptions& options, std::int64_t rank) {
  return cuda_plugin().functions->make_device({.real = real_of(options.device),
                                               .rank = rank,
                                               .local_rank = static_cast<int>(rank),
                                               .one_process = options.processes == nullptr,
                                               .limit_ms = options.limit.count()});
}

}  // namespace simrun
