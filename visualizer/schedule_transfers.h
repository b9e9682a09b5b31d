#pragma once

#include <cstdint>
#include <vector>

#include "visualizer/evaluated_schedule.h"

namespace simrun {

// Results that each rank sends to another, by rank: activations of F to the stage behind, gradients of B or I
// to the stage before. Neighbouring stages on one rank (the turn of a V) need none. What is no pass of the
// lists is not counted: bpipe's lent activations, the sum of gradients over the two copies of a stage.
std::vector<std::int64_t> results_sent(const EvaluatedSchedule& schedule);

// All of them per microbatch: 2 (stages - 1) where neighbouring stages never share a rank.
double transfers_per_microbatch(const EvaluatedSchedule& schedule);

}  // namespace simrun
