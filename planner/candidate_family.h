#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "planner/candidate.h"

namespace simrun {

// Candidates that split the ranks of a stage alike, but for data parallelism, and so share costs of passes.
// In the order of the fields neighbours share no prices of steps, for which threads would wait.
struct CandidateFamily {
  std::int64_t context = 1, expert_tensor = 1, expert = 1, tensor = 1;
  auto operator<=>(const CandidateFamily&) const = default;
};

// In their order.
std::vector<CandidateFamily> families_of(const Job& job, const PlanConfig& limits);

// The limits that leave one family.
PlanConfig limits_of(PlanConfig limits, const CandidateFamily& family);

}  // namespace simrun
