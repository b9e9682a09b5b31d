#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "sim/compiled_program.h"
#include "sim/device_state.h"
#include "sim/kernel_slowdowns.h"

namespace simrun {

// What compute steps take on GPUs of their own speed, kernel by kernel, each to the nearest picosecond.
class ComputeTimes {
 public:
  // Both must outlive it; nullptr: every kernel takes the time that it was compiled with.
  ComputeTimes(const CompiledPlan& compiled, const KernelSlowdowns* slowdowns)
      : compiled_(compiled), slowdowns_(slowdowns) {}

  bool are_as_compiled() const { return slowdowns_ == nullptr; }

  // Of the step that the GPU is about to run, by piece; until the next call. Only the first GPU of a pipeline
  // rank has pieces: those of GPUs with other extents are in the same proportions, or equally long where the
  // first has nothing to do in any of them (causal attention to what comes later).
  const std::vector<Picoseconds>& of(const DeviceState& device, const CompiledStep& step) {
    const std::vector<StepPiece>& pieces = compiled_.ranks[device.program].pieces;
    const Index entry = device.code->entries[device.entry].entry;
    Picoseconds of_first = 0;
    for (Index p = step.first_piece; p < step.first_piece + step.pieces; ++p) of_first += pieces[p].duration;
    const auto whole = static_cast<double>(step.duration);
    const double scale = of_first > 0 ? whole / static_cast<double>(of_first) : 0;
    const double each = of_first > 0 ? 0 : whole / std::max(1.0, static_cast<double>(step.pieces));
    times_.clear();
    for (Index p = step.first_piece; p < step.first_piece + step.pieces; ++p) {
      const double slowdown =
          slowdowns_ == nullptr ? 1 : slowdowns_->of({device.gpu, entry, pieces[p].instruction});
      const double alone = each + static_cast<double>(pieces[p].duration) * scale;
      times_.push_back(std::llround(alone * slowdown));
    }
    return times_;
  }

 private:
  const CompiledPlan& compiled_;
  const KernelSlowdowns* slowdowns_;
  std::vector<Picoseconds> times_;
};

}  // namespace simrun
