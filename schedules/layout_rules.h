#pragma once

#include <vector>

#include "configs/diagnostics.h"
#include "configs/job.h"
#include "models/graph.h"
#include "schedules/layout.h"

namespace simrun {

// The rules of a job in order of precedence: its layout section's, the last first, then its strategy's. For
// an operator in scope, the first of the user's rules that names a dimension decides it alone; an axis that
// the user gives to one dimension is not free for the strategy's rules about others.
std::vector<LayoutRule> rules_of(const Job& job, const Graph& graph);

// The mesh of a job, with the user's own axes. Throws ConfigError at the layout section where those do not
// cover a stage's ranks or cut across other axes; std::invalid_argument as device_mesh() does.
DeviceMesh mesh_of(const Job& job);

// How every operator is split. Throws ConfigError with everything that the layout section says and the model
// or mesh cannot follow, each at its place: unknown scopes and dimensions, dimensions that operators must
// keep whole, axes on two dimensions of one operator, extents that do not divide, parameters that two
// operators would split differently. std::invalid_argument where the strategy's own rules do not divide.
// `only`: of these operators alone, the others' layouts stay empty; none: of all.
std::vector<Layout> layouts_of(const Job& job, const Graph& graph, const DeviceMesh& mesh,
                               const std::vector<std::size_t>* only = nullptr);

}  // namespace simrun
