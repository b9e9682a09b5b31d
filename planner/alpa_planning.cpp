#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "planner/alpa_outcome.h"

namespace simrun {

AlpaPlanning alpa_planning(const PlanConfig& limits) {
  if (limits.minimise == PlanObjective::memory)
    throw std::invalid_argument(
        "--plan alpa makes the step short within plan.max_memory; minimise: memory goes with --plan");
  AlpaPlanning planning;
  for (const auto& [key, values] : limits.fixed_numbers) {
    // Its plans have none of these.
    const bool is_one = key == "context_parallel_size" || key.starts_with("expert_");
    if (is_one && std::ranges::count(values, 1) > 0) continue;
    if (key == "pipeline_model_parallel_size")
      planning.search.pipelines = values;
    else if (key == "virtual_pipeline_model_parallel_size")
      planning.virtual_stages = values;
    else if (key == "zero_stage")
      planning.search.zero_stages = values;
    else
      throw std::invalid_argument(
          fmt::format("plan.fix.{} means nothing to --plan alpa, whose layouts are by operator; it knows "
                      "pipeline_model_parallel_size, virtual_pipeline_model_parallel_size, zero_stage, "
                      "recompute and pipeline_schedule",
                      key));
  }
  planning.search.max_memory = limits.max_memory;
  planning.recomputes = limits.recomputes;
  planning.schedules = limits.schedules;
  return planning;
}

}  // namespace simrun
