#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "configs/cluster_config.h"
#include "schedules/timeline.h"

namespace simrun {

// Of a GPU's speed, that communication takes while it is in flight.
inline double communication_share(const Gpu& gpu) {
  return gpu.communication_sms > 0 && gpu.sm_count > gpu.communication_sms
             ? static_cast<double>(gpu.communication_sms) / static_cast<double>(gpu.sm_count)
             : 0;
}

// Of the cluster's kind of GPU with the largest.
inline double communication_share(const Cluster& cluster) {
  double most = communication_share(cluster.gpu);
  for (const NodeGroup& group : cluster.node_groups) most = std::max(most, communication_share(group.gpu));
  return most;
}

// Progress of GPUs' compute kernels where communication kernels take a share of the GPU's multiprocessors: a
// kernel runs at 1 - share of its speed while any communication of its GPU is in flight, and at full speed
// otherwise. Dates come in order. A kernel's end is foreseen, and foreseen anew when the speed changes.
class ComputeOverlap {
 public:
  // By GPU, 0 <= share < 1.
  explicit ComputeOverlap(const std::vector<double>& shares) : runs_(shares.size()) {
    for (std::size_t gpu = 0; gpu < shares.size(); ++gpu) runs_[gpu].slowed = 1 - shares[gpu];
  }

  // When a GPU's kernel will be done, if nothing changes until then. Later foresight of the same GPU makes it
  // void.
  struct Foresight {
    std::uint64_t number = 0;
    Picoseconds end = 0;
  };

  // Kernels one behind the other, by their times at full speed.
  Foresight begin(std::size_t gpu, const std::vector<Picoseconds>& kernels, Picoseconds now) {
    Run& run = runs_[gpu];
    run.left.assign(kernels.rbegin(), kernels.rend());
    run.took.clear();
    run.is_done = false;
    return next_kernel(run, now);
  }

  // At the end that was foreseen. Nothing, if it is void or all kernels are done.
  std::optional<Foresight> reach(std::size_t gpu, std::uint64_t number, Picoseconds now) {
    Run& run = runs_[gpu];
    if (run.number != number || !run.is_running) return std::nullopt;
    run.took.push_back(now - run.began);
    if (!run.left.empty()) return next_kernel(run, now);
    run.is_running = false;
    run.is_done = true;
    return std::nullopt;
  }

  // A communication begins (+1) or ends (-1).
  std::optional<Foresight> count_flight(std::size_t gpu, int change, Picoseconds now) {
    Run& run = runs_[gpu];
    const double before = speed(run);
    run.flying += change;
    if (speed(run) == before || !run.is_running) return std::nullopt;
    run.rest -= static_cast<double>(now - run.since) * before;
    run.since = now;
    return foresee(run);
  }

  bool is_done(std::size_t gpu) const { return runs_[gpu].is_done; }
  // What each kernel took. Once.
  const std::vector<Picoseconds>& take(std::size_t gpu) {
    runs_[gpu].is_done = false;
    return runs_[gpu].took;
  }

 private:
  struct Run {
    std::vector<Picoseconds> left;  // kernels, the next one last
    std::vector<Picoseconds> took;
    Picoseconds began = 0, since = 0;  // the present kernel; its last change of speed
    double rest = 0;                   // of it then, at full speed, ps
    int flying = 0;                    // communications
    std::uint64_t number = 0;          // of the last foresight
    double slowed = 1;                 // its speed beside communication
    bool is_running = false, is_done = false;
  };
  double speed(const Run& run) const { return run.flying > 0 ? run.slowed : 1; }
  Foresight next_kernel(Run& run, Picoseconds now) {
    run.is_running = true;
    run.began = run.since = now;
    run.rest = static_cast<double>(run.left.back());
    run.left.pop_back();
    return foresee(run);
  }
  Foresight foresee(Run& run) const {
    return {++run.number, run.since + std::max<Picoseconds>(0, std::llround(run.rest / speed(run)))};
  }

  std::vector<Run> runs_;
};

}  // namespace simrun
