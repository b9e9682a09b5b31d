#pragma once

#include <array>
#include <map>
#include <tuple>
#include <vector>

#include "sim/device_state.h"
#include "sim/stream_engine.h"

namespace simrun {

// What an engine's run leaves: totals of all simulated GPUs, and lanes, passes, issue times and flights of
// the first GPU of every pipeline rank, flights of the first of each of up to seven further classes as well.
class RunRecorder {
 public:
  explicit RunRecorder(const EngineInput& input);

  void entry_begins(const DeviceState& device);
  void entry_ends(const DeviceState& device);
  // At the GPU's compute tail. `times`: of the step's pieces, where they are not those of the code.
  void compute(const DeviceState& device, const CompiledStep& step,
               const std::vector<Picoseconds>& times = {});
  void operation(const DeviceState& device, const IssuedOperation& operation, Span span, Picoseconds wait) {
    if (keeps_operations_ && number_of(device) != no_index) keep(device, operation, span, wait);
  }
  void totals(const DeviceState& device, const RankTotals& totals);

  EngineRun take(Picoseconds step);

 private:
  static bool recorded(const DeviceState& device) { return device.local_gpu == 0; }
  // Of the GPU's class among its program's, if it is the first of it; else no_index. The first GPU's is 0.
  Index number_of(const DeviceState& device) const {
    return recorded(device)            ? 0
           : first_of_classes_.empty() ? no_index
                                       : first_of_classes_[device.program][device.local_gpu];
  }
  void number_classes(std::size_t program);
  void reserve_lanes(std::size_t program);
  void keep(const DeviceState& device, const IssuedOperation& operation, Span span, Picoseconds wait);

  const EngineInput& input_;
  const bool keeps_operations_;                       // of the recorded GPUs
  std::vector<std::vector<Index>> first_of_classes_;  // by program and GPU: number_of()
  EngineRun run_;
  // GPUs behind the recorded ones, by program, class of their tables and totals: into run_.ranks.
  std::map<std::tuple<Index, Index, Picoseconds, std::array<Picoseconds, traffic_count>,
                      std::array<Picoseconds, bubble_cause_count>, std::array<Picoseconds, traffic_count>>,
           std::size_t>
      further_;
};

}  // namespace simrun
