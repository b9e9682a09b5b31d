#pragma once

#include <string>
#include <vector>

#include "models/graph.h"
#include "schedules/layout.h"

namespace simrun {

// One way to run an operator on a mesh: every axis divides one of its loops, or repeats the operator (-1).
// Zheng et al. 2022, table 3, is this for a batched matrix product; collectives follow from the layouts.
struct OperatorStrategy {
  std::vector<std::int32_t> loop_of_axis;  // by axis name: index into loops_of(), -1: repeated
  Layout layout;
  bool operator==(const OperatorStrategy&) const = default;
};

// Dimensions that a strategy may divide: those of the iteration space that the field's strategies divide
// (batch, sequence, hidden, heads, feed-forward, vocabulary, experts, capacity, channels, classes), which the
// operator does not need whole and does not derive from others (Operator::regroup).
std::vector<DimensionId> loops_of(const Graph& graph, const Operator& op);

// All strategies over the named axes of the mesh, the first axis's loop fastest; a dimension over several
// axes has the last of them outermost. What does not divide is left out; the last one left repeats the
// operator on all ranks.
std::vector<OperatorStrategy> operator_strategies(const Graph& graph, const Operator& op,
                                                  const DeviceMesh& mesh,
                                                  const std::vector<std::string>& axes);

}  // namespace simrun
