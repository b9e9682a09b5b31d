#pragma once

#include "planner/alpa_graph.h"

namespace simrun {

// Seconds of passing so many bytes of each device of a stage on to the next stage, and as many back: all at
// once on the cluster's links, between nodes where any neighbours are on different ones. Stages of equal
// size, one behind the other.
double boundary_seconds(const Job& job, const Mesh& mesh, double bytes_of_device);

// Seconds of adding up so many bytes of each device of the first stage with those of the last one.
double ends_seconds(const Job& job, const Mesh& mesh, double bytes_of_device);

// Seconds of passing one microbatch's activations from one stage to the next and their gradients back, each
// device its part, as boundary_seconds() has it.
double handover_seconds(const Job& job, const StageGraph& stage, const LogicalMesh& mesh);

// Seconds of adding up the gradients of parameters that the first and the last stage read, once per step;
// each device of a stage has its part.
double shared_parameter_seconds(const Job& job, const StageGraph& stage, const LogicalMesh& mesh);

}  // namespace simrun
