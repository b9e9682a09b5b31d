#pragma once

#include <cstdint>
#include <string>

#include "configs/framework_memory.h"

// The software that runs a job, from configs/frameworks/*.yaml: what its kernels cost and what it keeps in
// memory beyond the plan's own tensors. A job that names none runs on the kernels of the device's model and
// keeps what the plan says, no more.
namespace simrun {

struct FrameworkKernels {
  // The host's time to issue one operator. A kernel that is shorter leaves the device waiting for the next
  // one; 0: the host is never late.
  double host_dispatch_s = 0;
  bool operator==(const FrameworkKernels&) const = default;
};

struct Framework {
  std::string name;  // preset name, e.g. megatron_core; "": none
  FrameworkKernels kernels;
  FrameworkMemory memory;
  bool operator==(const Framework&) const = default;
};

}  // namespace simrun
