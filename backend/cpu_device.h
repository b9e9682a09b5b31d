#pragma once

#include <memory>

#include "backend/device.h"

// The CPU as a device: Eigen's matrix products and plain loops, one thread. In f64 it is the measure of what
// is right, in f32 of what is possible.
namespace simrun {

std::unique_ptr<Device> make_cpu_device_f64();
std::unique_ptr<Device> make_cpu_device_f32();

}  // namespace simrun
