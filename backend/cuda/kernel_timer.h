#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "backend/cuda/cuda_check.h"

namespace simrun::cuda {

// Adds up what the kernels of a stream take: an event before and one behind each, so that neither a wait for
// another rank nor the host's work between two counts. The stream is empty when a kernel comes: its launch
// counts, some microseconds.
class KernelTimer {
 public:
  KernelTimer() = default;
  KernelTimer(const KernelTimer&) = delete;
  KernelTimer& operator=(const KernelTimer&) = delete;
  ~KernelTimer() {
    for (const cudaEvent_t event : events_) cudaEventDestroy(event);
  }
  void restart() {
    counts_ = true;
    used_ = 0;
  }
  void record(cudaStream_t stream) {
    if (!counts_) return;
    if (used_ == events_.size()) {
      events_.push_back(nullptr);
      check(cudaEventCreate(&events_.back()), "cudaEventCreate");
    }
    check(cudaEventRecord(events_[used_++], stream), "cudaEventRecord");
  }
  std::int64_t take_ns() {
    double milliseconds = 0;
    if (used_ > 0) check(cudaEventSynchronize(events_[used_ - 1]), "cudaEventSynchronize");
    for (std::size_t i = 0; i + 1 < used_; i += 2) {
      float of_kernel = 0;
      check(cudaEventElapsedTime(&of_kernel, events_[i], events_[i + 1]), "cudaEventElapsedTime");
      milliseconds += static_cast<double>(of_kernel);
    }
    counts_ = false;
    return std::llround(1e6 * milliseconds);
  }

 private:
  std::vector<cudaEvent_t> events_;
  std::size_t used_ = 0;
  bool counts_ = false;
};

}  // namespace simrun::cuda
