#include "sim/host_stretch.h"

#include <algorithm>
#include <cmath>

#include "sim/stream_walk.h"

namespace simrun {
namespace {

constexpr int most_rounds = 16;
constexpr double close_enough = 1e-9;  // of the host's time

// A moment of the pass, ps, and how it grows with the stretch of kernels.
struct Moment {
  double at = 0, growth = 0;

  friend bool operator<(const Moment& a, const Moment& b) { return a.at < b.at; }
  friend Moment operator+(const Moment& a, const Moment& b) { return {a.at + b.at, a.growth + b.growth}; }
};

Moment end_of(const Plan& plan, const std::vector<Instruction>& instructions,
              const std::vector<Picoseconds>& times, double by) {
  StreamWalk<Moment> streams(plan);
  Moment end;
  for (std::size_t i = 0; i < instructions.size(); ++i) {
    if (times[i] == 0) continue;
    const auto time = static_cast<double>(times[i]);
    const bool computes = instructions[i].stream == compute_stream;
    end = std::max(end, streams.step(instructions[i], computes ? Moment{by * time, time} : Moment{time}));
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
