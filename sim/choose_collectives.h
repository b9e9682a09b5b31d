#pragma once

#include <vector>

#include "schedules/chosen_collectives.h"
#include "schedules/plan.h"

namespace simrun {

// How the cluster carries out the collectives of a plan's step: what the tuner (sim/collective_tuner.h) takes
// for the first instance of each group. In the order in which the plan has them.
std::vector<ChosenCollective> choose_collectives(const Plan& plan);

}  // namespace simrun
