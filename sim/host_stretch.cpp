#include "sim/host_stretch.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace simrun {
namespace {

constexpr int most_rounds = 16;
constexpr double close_enough = 1e-9;  // of the host's time

// A moment of the pass, ps, and how it grows with the stretch of kernels.
struct Moment {
  double at = 0, growth = 0;
};
Moment later(const Moment& a, const Moment& b) { return a.at < b.at ? b : a; }

// The end of a pass that waits for no other pipeline rank. What other streams do waits for all compute issued
// before it; compute waits for what it reads.
Moment end_of(const Plan& plan, const std::vector<Instruction>& instructions,
              const std::vector<Picoseconds>& times, double by) {
  std::vector<Moment> streams(plan.streams.size());
  std::map<std::pair<std::uint8_t, Index>, Moment> written;  // by exchanges, by binding and buffer
  Moment end;
  for (std::size_t i = 0; i < instructions.size(); ++i) {
    const Instruction& of = instructions[i];
    if (times[i] == 0) continue;
    Moment moment = later(streams[of.stream], streams[compute_stream]);
    for (const auto* needed : {&of.inputs, &of.waits_for})
      for (const Index buffer : *needed)
        if (const auto at = written.find({of.binding, buffer}); at != written.end())
          moment = later(moment, at->second);
    const auto time = static_cast<double>(times[i]);
    if (of.stream == compute_stream) {
      moment = {moment.at + by * time, moment.growth + time};
    } else {
      moment.at += time;
      for (const Index buffer : of.outputs) written[{of.binding, buffer}] = moment;
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
    by = std::max(1.0, by + missing / (end.growth > 0 ? end.growth : compute));
  }
  return by;
}

}  // namespace simrun
