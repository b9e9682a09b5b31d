#pragma once

#include <cstdint>
#include <vector>

#include "schedules/plan.h"

namespace simrun {

// FLOPs of a microbatch's forward pass through one stage, per rank.
struct StageFlops {
  std::vector<double> layers;  // in the order that they follow each other
  double outside = 0;          // embeddings, classifier
};

// By stage; `layers`: how many each has. Where a plan does not say which layer an instruction is of, the
// stage's layers have equal parts.
std::vector<StageFlops> stage_flops(const Plan& plan, const std::vector<std::int64_t>& layers);

// Of all stages' layers; 0 where there are none.
double mean_layer_flops(const std::vector<StageFlops>& stages);

}  // namespace simrun
