#pragma once

#include <array>
#include <cstdint>

namespace simrun {

// What one generation of FlashAttention reaches on a device. Shares are of the peak for its type, of FLOPs
// that the mask leaves.
struct FlashRate {
  double forward = 0, backward = 0;  // long sequences, heads of 128 and more; 0: not stated
  double narrow = 1;                 // heads of 64, by those of 128; between them along a line
  // Keys per query that a masked kernel's diagonal blocks and uneven rows are worth: a causal forward over k
  // keys on average runs at k / (k + masked_keys) of the rate.
  double masked_keys = 0;
  bool is_stated() const { return forward > 0; }
  bool operator==(const FlashRate&) const = default;
};

// What kernels draw at one clock beyond what an idle GPU does, by what products draw. A GPU under its power
// limit keeps the more of its clock the less a step's kernels draw on average (sim/step_clock.h).
struct KernelPower {
  std::array<double, 3> flash = {1, 1, 1};  // FlashAttention 1, 2, 3
  double other = 1;                         // kernels that are neither products nor attention
  double fitted = 1;                        // the average of the steps on which `sustained` was fitted
  bool operator==(const KernelPower&) const = default;
};

// Coefficients of the model of kernels beyond a device's datasheet: `kernels:` in configs/gpus/*.yaml.
struct GpuKernels {
  // Philox numbers per second in an elementwise kernel; 0: dropout costs its bytes alone.
  double random_numbers = 0;
  // Share of its best rate that a product or flash attention keeps under a whole step's load, where the power
  // limit holds the clock down.
  double sustained = 1;
  // Share of that again for products of fp8, which draw more.
  double fp8_efficiency = 1;
  KernelPower power;
  // Waves of tiles that a product's ragged start and end are worth.
  double tail_waves = 0;
  // The device's efficiencies are those of training steps, not of single kernels: what a framework loses
  // (FrameworkKernels::compute_slowdown) is in them.
  bool efficiencies_of_steps = false;
  std::array<FlashRate, 3> flash;  // FlashAttention 1, 2, 3
  bool operator==(const GpuKernels&) const = default;
};

}  // namespace simrun
