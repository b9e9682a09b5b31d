#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schedules/plan.h"
#include "schedules/timeline.h"

namespace simrun {

// Instances of one kind of tensor in one layer that are alive together.
struct AliveTensors {
  Category category = Category::activations;
  std::string name;  // Buffer::name
  std::int32_t layer =
      -1;  // of the instruction that writes it first; -1: outside the layers, or a bucket of several
  std::int64_t instances = 0;
  std::int64_t bytes = 0;  // of all instances
  bool operator==(const AliveTensors&) const = default;
};

// What is alive on a GPU of the rank right behind the instruction at which its memory is at its highest
// (MemoryPeak), in the GPU's own memory: the bytes sum to MemoryPeak::live by category. Buffers of no bytes
// are left out. By category, then the largest first.
//
// A buffer instance lives from its first writer to its FREE; those of run scope that the program touches
// live for ever; a view owns nothing. Of the rank's GPUs it is the one that reaches the peak. Linear in the
// instruction instances before the peak.
std::vector<AliveTensors> alive_at_peak(const Plan& plan, const RankTimeline& rank);

}  // namespace simrun
