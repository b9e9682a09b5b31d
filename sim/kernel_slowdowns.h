#pragma once

#include <vector>

#include "configs/cluster_config.h"
#include "models/philox.h"
#include "schedules/plan.h"

namespace simrun {

// GPUs of the cluster that a straggler entry means, ascending. Drawn ones depend on the seed and the entry's
// name only.
std::vector<std::int64_t> straggling_gpus(const Cluster& cluster, const Straggler& straggler);

// What the imperfections of a cluster (configs/imperfections.h) make of the times of compute kernels. A GPU
// that several straggler entries name has the product of their slowdowns. Random numbers are counter-based:
// which engine asks, and in which order, does not matter.
class KernelSlowdowns {
 public:
  explicit KernelSlowdowns(const Cluster& cluster);

  // No GPU takes another time than its fellows.
  bool empty() const { return !has_stragglers() && !has_jitter(); }
  bool has_stragglers() const { return !of_gpu_.empty(); }
  bool has_jitter() const { return jitter_.coefficient_of_variation > 0; }

  // Without jitter.
  double of_gpu(std::int64_t gpu) const {
    return of_gpu_.empty() ? 1 : of_gpu_[static_cast<std::size_t>(gpu)];
  }

  // No execution takes longer than its time x this.
  double most() const;

  // One execution of an instruction: by entry of the GPU's program and place in the entry's segment.
  struct Execution {
    std::int64_t gpu = 0;  // of the cluster
    Index entry = 0, instruction = 0;
  };
  double of(const Execution& execution) const {
    return of_gpu(execution.gpu) * (has_jitter() ? jitter(execution) : 1);
  }

 private:
  double jitter(const Execution& execution) const;

  Jitter jitter_;
  double log_deviation_ = 0;  // of a lognormal distribution
  RandomStream random_;
  std::vector<double> of_gpu_;  // empty: all 1
};

}  // namespace simrun
