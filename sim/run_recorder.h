#pragma once

#include "sim/device_state.h"
#include "sim/stream_engine.h"

namespace simrun {

// What an engine's run leaves: totals of all simulated GPUs, and lanes, passes, issue times and flights of
// the first GPU of every pipeline rank.
class RunRecorder {
 public:
  explicit RunRecorder(const EngineInput& input);

  void entry_begins(const DeviceState& device);
  void entry_ends(const DeviceState& device);
  void compute(const DeviceState& device, const CompiledStep& step);  // at the GPU's compute tail
  void operation(const DeviceState& device, const IssuedOperation& operation, Span span, Picoseconds wait);
  void totals(const DeviceState& device, const RankTotals& totals);

  EngineRun take(Picoseconds step);

 private:
  static bool recorded(const DeviceState& device) { return device.local_gpu == 0; }
  void reserve_lanes(std::size_t program);

  const EngineInput& input_;
  EngineRun run_;
  std::vector<Index> class_of_;  // of the GPUs' tables, by run_.ranks
};

}  // namespace simrun
