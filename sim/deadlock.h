#pragma once

#include <vector>

#include "sim/rank_state.h"

namespace simrun {

// Throws std::runtime_error that says for every rank that cannot go on: its instruction and microbatch, what
// it waits for, and which ranks have yet to post it.
[[noreturn]] void throw_deadlock(const Plan& plan, const CompiledPlan& compiled,
                                 const std::vector<RankState>& ranks);

[[noreturn]] void throw_posted_twice(const Plan& plan, const Channel& channel);

}  // namespace simrun
