#pragma once

#include "schedules/plan.h"
#include "schedules/timeline.h"
#include "visualizer/imperfection_table.h"

namespace simrun {

// What each entry of the plan's imperfections costs: the plan itself stays, and is simulated without any of
// them and with each alone, by the engine that gave `timeline`, the run with all. Random numbers depend on
// seed and names only: each alone is drawn as among the others.
ImperfectionCosts imperfection_costs(const Plan& plan, const Timeline& timeline);

}  // namespace simrun
