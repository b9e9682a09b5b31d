#pragma once

#include <string>
#include <vector>

#include "planner/candidate.h"

namespace simrun {

// Schedules that a search does not estimate for every candidate: it tries them on the best splits, by
// simulation, and on few GPUs on what is estimated to be near (planner/estimated_schedules.h). Those that
// store two copies of a stage's weights (Chimera) or search for an order themselves (with_searched_orders)
// are not among them.
const std::vector<std::string>& other_schedules();

// The candidate under each of them, as far as it has as many virtual stages as they need; none where limits
// name schedules, and none without a pipeline but interleaved_1f1b_overlap, which hides what experts exchange
// behind the passes of another microbatch. What the loader's rules refuse of them is still among them.
std::vector<Candidate> with_other_schedules(const Job& job, const PlanConfig& limits,
                                            const Candidate& candidate);

// The candidate's pipeline under the orders that are searched for the times of its own passes: zb_auto,
// v_auto and auto, of one, two and its own number of virtual stages. Otherwise as above.
std::vector<Candidate> with_searched_orders(const Job& job, const PlanConfig& limits,
                                            const Candidate& candidate);

// The limits under which for_each_candidate() visits the schedules it visits anyway and the candidate's.
PlanConfig with_schedule_of(PlanConfig limits, const Candidate& candidate);

}  // namespace simrun
