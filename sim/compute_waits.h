#pragma once

#include <algorithm>
#include <vector>

#include "sim/bubble_cause.h"
#include "sim/device_state.h"

namespace simrun {

// The later of two pipeline transfers; of those that end together the one that began later.
inline Span later_transfer(const Span& a, const Span& b) {
  return std::pair(a.end, a.start) < std::pair(b.end, b.start) ? b : a;
}

// A compute stream waits for other streams of its GPU: its tail moves to when it need not wait any more, and
// the gap is accounted for. Where that time is not known yet the GPU is parked, and the result is false.
class ComputeWaits {
 public:
  // A compute step for its inputs.
  bool for_inputs(DeviceState& device, const CompiledSegment& segment, const CompiledStep& step) {
    const CompiledRank& code = *device.code;
    const CompiledEntry& entry = code.entries[device.entry];
    Picoseconds ready = device.compute_tail;
    needed_.clear();
    for (Index i = step.first_read; i < step.first_read + step.reads; ++i) {
      const Slot& slot = device.slots[code.slot(code.references[i], entry)];
      if (!device.ended(slot.writer)) {
        device.park(slot.writer);
        return false;
      }
      ready = std::max(ready, slot.end);
      if (slot.p2p.end > 0) needed_.push_back(slot.p2p);
    }
    move_tail(device, segment, ready);
    return true;
  }

  // A blocking device for what it has begun on other streams, sends excepted.
  bool for_communication(DeviceState& device, const CompiledSegment& segment) {
    Span arrival;
    Picoseconds ready = device.compute_tail;
    for (Index s = 1; s < device.streams.size(); ++s) {
      const StreamState& stream = device.streams[s];
      if (stream.ended < stream.waited_for) {
        device.park({static_cast<std::uint8_t>(s), stream.waited_for});
        return false;
      }
      ready = std::max(ready, stream.waited_until);
      arrival = later_transfer(arrival, stream.arrival);
    }
    needed_.clear();
    if (arrival.end > device.compute_tail) needed_.push_back(arrival);
    move_tail(device, segment, ready);
    return true;
  }

 private:
  void move_tail(DeviceState& device, const CompiledSegment& segment, Picoseconds ready) {
    if (ready == device.compute_tail) return;
    device.accounting.add_gap({device.compute_tail, ready}, needed_, bubble_cause(device, segment),
                              {device.issued, device.first_outstanding()});
    device.compute_tail = ready;
  }

  std::vector<Span> needed_;  // pipeline transfers that the present instruction waits for
};

}  // namespace simrun
