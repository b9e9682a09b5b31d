#include "sim/host_stretch.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "sim/compute_stretch.h"

namespace simrun {
namespace {

constexpr int most_rounds = 16;
constexpr double close_enough = 1e-9;  // of the host's time

// A moment of the pass, ps, and how it grows with the stretch of kernels.
struct Moment {
  double at = 0, growth = 0;
};
Moment later(const Moment& a, const Moment& b) { return a.at < b.at ? b : a; }

// What exchanges have brought so far, by binding and buffer: a read waits for what was written of the buffer,
// of what it is a view of, and of the views below it.
class Arrivals {
 public:
  explicit Arrivals(const Plan& plan) : plan_(plan) {}

  void add(std::uint8_t binding, Index buffer, const Moment& at) {
    whole_[{binding, buffer}] = at;
    for (Index up = plan_.buffers[buffer].parent; up != no_index; up = plan_.buffers[up].parent)
      below_[{binding, up}] = later(below_[{binding, up}], at);
  }
  Moment of(std::uint8_t binding, Index buffer) const {
    if (whole_.empty()) return {};
    Moment moment = found(below_, {binding, buffer});
    for (Index up = buffer; up != no_index; up = plan_.buffers[up].parent)
      moment = later(moment, found(whole_, {binding, up}));
    return moment;
  }

 private:
  using Place = std::pair<std::uint8_t, Index>;
  static Moment found(const std::map<Place, Moment>& in, const Place& place) {
    const auto at = in.find(place);
    return at == in.end() ? Moment{} : at->second;
  }

  const Plan& plan_;
  std::map<Place, Moment> whole_, below_;
};

// The end of a pass that waits for no other pipeline rank. What other streams do waits for all compute issued
// before it; compute waits for what it reads, and for the ends of exchanges that block it.
Moment end_of(const Plan& plan, const std::vector<Instruction>& instructions,
              const std::vector<Picoseconds>& times, double by) {
  std::vector<Moment> streams(plan.streams.size());
  Arrivals arrivals(plan);
  Moment end;
  for (std::size_t i = 0; i < instructions.size(); ++i) {
    const Instruction& of = instructions[i];
    if (times[i] == 0) continue;
    Moment moment = later(streams[of.stream], streams[compute_stream]);
    for (const auto* needed : {&of.inputs, &of.waits_for})
      for (const Index buffer : *needed) moment = later(moment, arrivals.of(of.binding, buffer));
    const auto time = static_cast<double>(times[i]);
    if (of.stream == compute_stream) {
      moment = {moment.at + by * time, moment.growth + time};
    } else {
      moment.at += time;
      for (const Index buffer : of.outputs) arrivals.add(of.binding, buffer, moment);
      if (blocks_compute(plan, of)) streams[compute_stream] = moment;
    }
    streams[of.stream] = moment;
    end = later(end, moment);
  }
  return end;
}

}  // namespace

// A pass is as long as the longest chain of its kernels and exchanges: convex in the stretch, so Newton's
// steps end at the least stretch whose pass is long enough, whichever side they come from.
double host_stretch(const Plan& plan, const std::vector<Instruction>& instructions,
                    const std::vector<Picoseconds>& times, double issue_ps) {
  double compute = 0;
  for (std::size_t i = 0; i < instructions.size(); ++i)
    if (instructions[i].stream == compute_stream) compute += static_cast<double>(times[i]);
  double by = 1;
  if (compute == 0) return by;
  for (int round = 0; round < most_rounds; ++round) {
    const Moment end = end_of(plan, instructions, times, by);
    const double missing = issue_ps - end.at;
    if (by == 1 && missing <= 0) return by;
    if (std::abs(missing) <= close_enough * issue_ps) return by;
    // Where the longest chain has no kernels: from where they alone take long enough.
    by = end.growth > 0 ? std::max(1.0, by + missing / end.growth) : issue_ps / compute;
  }
  return by;
}

}  // namespace simrun
