#pragma once

#include "schedules/plan.h"

namespace simrun {

// The same plan with a program for every GPU, none standing for another: each GPU is a stage of its own with
// its own buffers, extents and code, and meets its partners by name. Every instance of every group becomes a
// collective over those stages, every step of a ring a SEND and a RECV between two of them, each with a
// channel of its own. What a GPU runs of a virtual stage is one of its own too. Pipeline rank g of the result
// is the g-th GPU of the plan's stages, one stage after the other.
//
// For small plans: GPUs x entries x instructions. Throws std::invalid_argument where a GPU has no partner.
Plan unfolded(const Plan& plan);

}  // namespace simrun
