#pragma once

#include <cstdint>
#include <vector>

#include "planner/alpa_search.h"

namespace simrun {

// The chosen layouts of one stage.
struct StageLayouts {
  const StageGraph* graph = nullptr;
  StageChoices part;  // of the graph
  Choice chosen;      // by its nodes; no strategies: none fits
  LogicalMesh mesh;
};

// Writes down the mesh and the layout of every operator, those of one name and layout as one rule.
void add_rules(const std::vector<StageLayouts>& stages, AlpaPlan& plan);

}  // namespace simrun
