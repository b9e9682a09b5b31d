#include "planner/plan_limits.h"

#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace simrun {

void require_only_memory_limit(const PlanConfig& plan, std::string_view mode, std::string_view what) {
  if (plan.minimise == PlanObjective::memory)
    throw std::invalid_argument(fmt::format(
        "--plan {} makes the step short within plan.max_memory; minimise: memory goes with --plan", mode));
  std::string fixed;
  if (!plan.fixed_numbers.empty())
    fixed = plan.fixed_numbers.begin()->first;
  else if (!plan.recomputes.empty())
    fixed = "recompute";
  else if (!plan.schedules.empty())
    fixed = "pipeline_schedule";
  if (fixed.empty()) return;
  throw std::invalid_argument(
      fmt::format("plan.fix.{} means nothing to --plan {}, {}; of the plan section it knows max_memory; "
                  "--plan and --plan alpa keep to plan.fix",
                  fixed, mode, what));
}

}  // namespace simrun
