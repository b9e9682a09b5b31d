#pragma once

#include "planner/alpa_graph.h"

namespace simrun {

// Seconds of passing one microbatch's activations from one stage to the next and their gradients back, each
// device its part, all at once on the cluster's links: between nodes where any are. Stages of equal size, one
// behind the other.
double handover_seconds(const Job& job, const StageGraph& stage, const LogicalMesh& mesh);

// Seconds of adding up the gradients of parameters that the first and the last stage read, once per step;
// each device of a stage has its part.
double shared_parameter_seconds(const Job& job, const StageGraph& stage, const LogicalMesh& mesh);

}  // namespace simrun
