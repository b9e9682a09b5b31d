#pragma once

#include <vector>

#include "planner/candidate.h"
#include "planner/pass_costs.h"

// What ranks idle under schedules that split backward passes, in closed form, transfers left out. `all`: the
// costs of all stages together.
namespace simrun {

// Of DualPipe, for each stage between a rank and the middle of so many stages: an overlapped pair and B less
// 3 W (schedules/dualpipe.h).
double dualpipe_idle_s(const PartCost& all, double stages);

// The passes of a step of ZB-H2, of which no rank idles between its own: it begins when the first microbatch
// has come down to it, and what it has put off is done while the last one goes back up.
double without_idling_s(double microbatches, const std::vector<PartCost>& stages);

// Of a rank of a wave: of ZB-V and DualPipeV as published, of V-Half and V-Min as their lists have it for
// equal passes.
double wave_bubble_s(const Candidate& candidate, const PartCost& all);

// What ZB-V idles more where it has few microbatches: twice as long with no more of them than ranks.
double few_microbatches_s(double ranks, double microbatches, const PartCost& all);

// From microbatch to microbatch of V-Min, whose six passes on a rank have slots as long as the longest kind
// of pass, on stages alike.
double slots_s(double ranks, const PartCost& all);

}  // namespace simrun
