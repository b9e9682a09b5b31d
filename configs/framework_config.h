#pragma once

#include <cstdint>
#include <string>

#include "configs/framework_kernels.h"
#include "configs/framework_memory.h"

// The software that runs a job, from configs/frameworks/*.yaml: what its kernels cost and what it keeps in
// memory beyond the plan's own tensors. A job that names none runs on the kernels of the device's model and
// keeps what the plan says, no more.
namespace simrun {

struct Framework {
  std::string name;  // preset name, e.g. megatron_core; "": none
  FrameworkKernels kernels;
  FrameworkMemory memory;
  bool operator==(const Framework&) const = default;
};

}  // namespace simrun
