#include "planner/alpa_outcome.h"
#include "planner/unsearched.h"

namespace simrun {

AlpaPlanning alpa_planning(const PlanConfig& limits) {
  require_searched(limits_unknown_to_alpa(limits));
  AlpaPlanning planning;
  const auto fixed = [&](const char* key) {
    const auto found = limits.fixed_numbers.find(key);
    return found == limits.fixed_numbers.end() ? std::vector<std::int64_t>{} : found->second;
  };
  planning.search.pipelines = fixed("pipeline_model_parallel_size");
  planning.virtual_stages = fixed("virtual_pipeline_model_parallel_size");
  planning.search.zero_stages = fixed("zero_stage");
  planning.search.max_memory = limits.max_memory;
  planning.recomputes = limits.recomputes;
  planning.schedules = limits.schedules;
  return planning;
}

}  // namespace simrun
