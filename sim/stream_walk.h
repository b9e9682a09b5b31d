#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "schedules/plan.h"
#include "sim/compute_stretch.h"

namespace simrun {

// What exchanges have brought so far, by binding and buffer: a read waits for what was written of the buffer,
// of what it is a view of, and of the views below it. Time: an ordered sum of durations; Time{} is the start.
template <class Time>
class Arrivals {
 public:
  explicit Arrivals(const Plan& plan) : plan_(plan) {}

  void clear() {
    whole_.clear();
    below_.clear();
  }
  void add(std::uint8_t binding, Index buffer, const Time& at) {
    whole_[{binding, buffer}] = at;
    for (Index up = plan_.buffers[buffer].parent; up != no_index; up = plan_.buffers[up].parent)
      below_[{binding, up}] = std::max(below_[{binding, up}], at);
  }
  Time of(std::uint8_t binding, Index buffer) const {
    if (whole_.empty()) return {};
    Time time = found(below_, {binding, buffer});
    for (Index up = buffer; up != no_index; up = plan_.buffers[up].parent)
      time = std::max(time, found(whole_, {binding, up}));
    return time;
  }

 private:
  using Place = std::pair<std::uint8_t, Index>;
  static Time found(const std::map<Place, Time>& in, const Place& place) {
    const auto at = in.find(place);
    return at == in.end() ? Time{} : at->second;
  }

  const Plan& plan_;
  std::map<Place, Time> whole_, below_;
};

// Where the streams of a rank are that waits for no other pipeline rank. What other streams do waits for all
// compute issued before it; compute waits for what it reads, and for the ends of exchanges that block it.
template <class Time>
class StreamWalk {
 public:
  explicit StreamWalk(const Plan& plan) : plan_(plan), streams_(plan.streams.size()), arrivals_(plan) {}

  // The buffers of the steps that follow are another pass's.
  void begin_pass() { arrivals_.clear(); }
  // Issues what takes `duration`: when it ends.
  Time step(const Instruction& of, const Time& duration) {
    Time time = std::max(streams_[of.stream], streams_[compute_stream]);
    for (const auto* needed : {&of.inputs, &of.waits_for})
      for (const Index buffer : *needed) time = std::max(time, arrivals_.of(of.binding, buffer));
    time = time + duration;
    streams_[of.stream] = time;
    if (of.stream != compute_stream) {
      for (const Index buffer : of.outputs) arrivals_.add(of.binding, buffer, time);
      if (is_awaited(plan_, of) && blocks_compute(plan_, of)) streams_[compute_stream] = time;
    }
    return time;
  }
  // When compute is done with what was issued so far.
  const Time& computed() const { return streams_[compute_stream]; }

 private:
  const Plan& plan_;
  std::vector<Time> streams_;
  Arrivals<Time> arrivals_;
};

}  // namespace simrun
