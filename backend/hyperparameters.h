#pragma once

#include "backend/operations.h"

namespace simrun {

// The numbers of a plan's updates: of its first OPTIMIZER, since all have the same; where there is none, the
// defaults. The seed is no part of a plan.
Hyperparameters hyperparameters_of(const Plan& plan);

}  // namespace simrun
