#pragma once

#include <vector>

#include "planner/search.h"

namespace simrun {

// On up to 64 GPUs of one kind, where the limits leave schedules open: of the schedules that a search tries
// on few splits alone (planner/other_schedules.h) the candidates of all splits that fit by their estimates
// and come to no more than `most_goal`, the best of each split, schedule and size of microbatches; no more
// than a search has time to simulate. Those whose gain no estimate knows (of experts' exchanges that are
// hidden), or that come in too many shapes (interleaved_zb), are not among them. REQUIRES:
// has_layer_kinds(job)
std::vector<Candidate> near_under_other_schedules(const PlanBase& base, const PlanSearchOptions& options,
                                                  double most_goal);

}  // namespace simrun
