#pragma once

#include <memory>

#include "backend/device.h"

// The CPU as a device: Eigen's matrix products and plain loops, one thread. In f64 it is the measure of what
// is right, in f32 of what is possible.
namespace simrun {

std::unique_ptr<Device> make_cpu_device_f64();
std::unique_ptr<Device> make_cpu_device_f32();
// Computes in f32 and stores what the plan says in the plan's types: after every kernel and every message
// what is bf16 or fp16 is rounded to nearest, ties to even, and memory is the plan's to the byte.
std::unique_ptr<Device> make_cpu_device_half();

}  // namespace simrun
