#include <cublasLt.h>

#include "backend/cuda/cuda_check.h"
#include "backend/cuda/cuda_device.h"
#include "backend/cuda/nccl_check.h"

// The plugin `cuda`: libsimrun_cuda.so.
namespace simrun::cuda {
namespace {

std::string about() {
  int runtime = 0, driver = 0;
  cudaRuntimeGetVersion(&runtime);
  cudaDriverGetVersion(&driver);
  const auto text = [](int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); };
  return fmt::format("CUDA {}, cuBLAS {}, {}", text(runtime), cublasLtGetVersion(),
                     driver == 0 ? "no driver" : "driver for CUDA " + text(driver));
}

constexpr BackendPlugin plugin{.abi = plugin_abi(),
                               .name = "cuda",
                               .about = about,
                               .why_not = why_no_cuda,
                               .devices = cuda_devices,
                               .make_device = make_cuda_device,
                               .join_processes = nullptr,
                               .check_library = check_nccl};

}  // namespace
}  // namespace simrun::cuda

extern "C" __attribute__((visibility("default"))) const simrun::BackendPlugin* simrun_backend_plugin(
    std::uint64_t) {
  return &simrun::cuda::plugin;
}
