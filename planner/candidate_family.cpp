#include "planner/candidate_family.h"

#include <set>

namespace simrun {

std::vector<CandidateFamily> families_of(const Job& job, const PlanConfig& limits) {
  std::set<CandidateFamily> families;
  for_each_candidate(job, limits, [&](const Candidate& of) {
    families.insert({of.context, of.expert_tensor, of.expert, of.tensor});
  });
  return {families.begin(), families.end()};
}

PlanConfig limits_of(PlanConfig limits, const CandidateFamily& family) {
  limits.fixed_numbers["tensor_model_parallel_size"] = {family.tensor};
  limits.fixed_numbers["context_parallel_size"] = {family.context};
  limits.fixed_numbers["expert_model_parallel_size"] = {family.expert};
  limits.fixed_numbers["expert_tensor_parallel_size"] = {family.expert_tensor};
  return limits;
}

}  // namespace simrun
