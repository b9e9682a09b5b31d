#pragma once

#include <string>
#include <utility>
#include <vector>

#include "schedules/plan.h"

namespace simrun {

struct Extent {
  const char* name;
  std::int64_t extent;
};

// Ten SMs of 1e11 FLOP/s each, 1 TB/s, no launch.
inline Gpu plain_gpu() {
  Gpu gpu;
  gpu.name = "plain";
  gpu.peak_flops[Dtype::bf16] = 1e12;
  gpu.vector_flops = 1e11;
  gpu.sm_count = 10;
  gpu.memory_bandwidth = 1e12;
  gpu.matmul_efficiency = gpu.memory_efficiency = 1;
  return gpu;
}

// Single instructions of given shapes on a device.
class Shapes {
 public:
  explicit Shapes(Gpu gpu) { plan.cluster.gpu = std::move(gpu); }

  Index buffer(Dtype dtype, const std::vector<Extent>& dims) {
    Buffer& buffer = plan.buffers.emplace_back();
    buffer.dtype = dtype;
    for (const Extent& dim : dims) buffer.dims.push_back({name(dim.name), -1, dim.extent});
    return static_cast<Index>(plan.buffers.size() - 1);
  }

  static Instruction does(Opcode opcode, Function function, std::vector<Index> inputs,
                          std::vector<Index> outputs) {
    Instruction what;
    what.opcode = opcode;
    what.function = function;
    what.inputs = std::move(inputs);
    what.outputs = std::move(outputs);
    return what;
  }

  Plan plan;

 private:
  std::uint16_t name(const std::string& of) {
    std::uint16_t at = 0;
    while (at < plan.dimension_names.size() && plan.dimension_names[at] != of) ++at;
    if (at == plan.dimension_names.size()) plan.dimension_names.push_back(of);
    return at;
  }
};

}  // namespace simrun
