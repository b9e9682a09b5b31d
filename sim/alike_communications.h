#pragma once

#include <vector>

#include "schedules/plan.h"

namespace simrun {

// By communication: the number of the first that has the same ends and channel. Causes differ from layer to
// layer.
std::vector<Index> first_alike(const Plan& plan);

}  // namespace simrun
