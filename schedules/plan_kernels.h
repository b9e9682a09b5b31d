#pragma once

#include "configs/framework_kernels.h"
#include "configs/gpu_kernels.h"

namespace simrun {

namespace proto {
class Framework_Kernels;
class GpuKernels;
}  // namespace proto

// Part of schedules/plan_encode.cpp and plan_decode.cpp: coefficients of the model of kernels.
void encode_kernels(const FrameworkKernels& kernels, proto::Framework_Kernels& out);
FrameworkKernels decode_kernels(const proto::Framework_Kernels& in);
void encode_kernels(const GpuKernels& kernels, proto::GpuKernels& out);
GpuKernels decode_kernels(const proto::GpuKernels& in);

}  // namespace simrun
