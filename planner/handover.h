#pragma once

#include "planner/alpa_graph.h"

namespace simrun {

// Seconds of passing one microbatch's activations from the first stage to the next and their gradients back,
// each device its part, all at once on the cluster's links. Stages of equal size, one behind the other.
double handover_seconds(const Job& job, const StageGraph& stage, const LogicalMesh& mesh);

}  // namespace simrun
