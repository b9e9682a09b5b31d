#pragma once

#include "schedules/plan.h"
#include "schedules/timeline.h"

namespace simrun {

// Seconds of the first layer's forward and backward passes of one microbatch on the first GPU, each from its
// first instruction to its last; what reduces gradients or updates weights does not count. The timeline has
// Detail::instructions; 0 where no instruction is of that layer.
double seconds_of_layer(const Plan& plan, const Timeline& timeline);

}  // namespace simrun
