#pragma once

#include "sim/device_state.h"

namespace simrun {

// Why the GPU's compute stream is idle before the instruction that it is at, unless it waits for a pipeline
// transfer.
inline BubbleCause bubble_cause(const DeviceState& device, const CompiledSegment& segment) {
  const CompiledRank& code = *device.code;
  const bool first_compute = device.entry == code.first_backward && device.step <= segment.first_compute;
  if (device.entry < code.first_backward || first_compute) {
    const bool forwards_left = code.last_forward != no_index && device.entry <= code.last_forward;
    if (code.first_backward != no_index || forwards_left) return BubbleCause::warm_up;
  }
  return code.last_forward == no_index || device.entry > code.last_forward ? BubbleCause::drain
                                                                           : BubbleCause::imbalance;
}

}  // namespace simrun
